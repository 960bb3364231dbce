"""Checks of `doctor` on a server's connection and a role's rights, as the server sees them.

It says nothing that was not looked at: a server sees the connection that it has, which may be a
pooler's, and the rights that roles were granted, but not what its functions do.
"""


def describe_rights(
    *,
    is_clear: bool,
    is_encrypted: bool,
    n_writable: int,
    is_hidden: bool,
    is_found_by_path: bool,
) -> tuple[list[str], list[str]]:
    """Remarks, and warnings that ask for a correction.

    ``is_clear`` if rows leave the server's machine without TLS, ``is_encrypted`` if its connection
    has TLS; ``n_writable`` tables and views may be written to; ``is_hidden`` if policies of the
    database hide rows; ``is_found_by_path`` if the query names a table without its schema.
    """
    said: list[str] = []
    warnings: list[str] = []
    if is_clear:
        warnings.append(
            "rows come from the database without TLS: set sslmode=verify-full in its service or "
            "address, and TLS on the server"
        )
    else:
        seen = "uses TLS" if is_encrypted else "does not leave its machine"
        said.append(
            f"the server's connection {seen} (if a pooler is in between, its other side is not "
            "seen)"
        )
    if n_writable:
        warnings.append(
            f"the role may change rows of tables or views ({n_writable}), by its own rights or "
            "as a role that it is a member of: use one that may only read "
            "(docs/how-to/use-postgresql.md)"
        )
    else:
        said.append("its role has no right to change rows of a table or view")
    if is_hidden:
        said.append(
            "row-level security hides rows from this role: only those that the database's policies "
            "let it see are counted"
        )
    if is_found_by_path:
        said.append(
            "the query names a table without its schema, so the role's search_path decides which "
            "table is read: name each as schema.table"
        )
    return said, warnings
