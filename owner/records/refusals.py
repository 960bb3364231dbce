"""Reasons why a database refuses, in this project's words.

Every message of a driver is left out: it may quote a row, a query or an address. Its SQLSTATE, a
code of five characters, is translated instead.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from dppca.common.kernel.errors import DataError

STATES: Final = {
    "42501": "its role may not read them: grant it SELECT on the table, or on what the query reads",
    "42P01": (
        "the table does not exist, or the role may not see it: correct policy.yaml or the query"
    ),
    "42703": "a column that the query names does not exist: correct the query or the view",
    "42601": "the query is no SQL that the database takes as one statement: run it in a client",
    "25006": "the query would write, and only reading is allowed",
    "57014": "it was cancelled, or took longer than the role's statement_timeout",
    "28": "it refuses the role: check its name, and its password where the driver looks for it",
    "3D": "the database does not exist: correct the service or the address",
    "42883": "a function or comparison is missing that the query, or the type of `key`, needs",
    "22": "the query itself fails on a row: let it give the column as it is, without a conversion",
    "40": "it ended the transaction because others were writing: run the command again",
    "53": "it has no room or connection left: try again later, or ask its administrator",
    "55P03": "another session holds the table locked: run the command again once that has ended",
    "55000": "it is not ready, as a materialized view without rows: ask its administrator",
    "57": "the server or its administrator ended the connection: try again later",
}
"""Explanations of errors by SQLSTATE or its class."""
_WORDS: Final = (
    ("no such table", STATES["42P01"]),
    (
        "no such column",
        f"{STATES['42703']}. In SQLite a text stands in 'single quotes': what stands in \"double "
        'quotes" is read as a name alone',
    ),
    ("syntax error", STATES["42601"]),
    ("database is locked", "another program writes to it: run the command again once it has ended"),
    ("malformed|not a database", "its file is damaged, or is not an SQLite database"),
    (
        "readonly database|unable to open database file",
        "SQLite has to write beside its file, which is in WAL mode (let this user write into its "
        "folder) or was left in the middle of a change (open it once with the program that writes "
        "it); a copy that `VACUUM INTO 'copy.db'` makes can be read, too",
    ),
    (r"statement timeout|canceling statement", STATES["57014"]),
    (
        r"password|not permitted to log in|FATAL: +role |pg_hba\.conf|authentication",
        STATES["28"],
    ),
    (r"FATAL: +database ", STATES["3D"]),
    (r"too many connections|connection slots", STATES["53"]),
    (r"definition of service|service file", "~/.pg_service.conf does not name the service"),
    (r"certificate|SSL|TLS", "it does not speak TLS as asked: check sslmode and the certificates"),
    (r"starting up|shutting down|terminating connection", STATES["57"]),
    (r"read-only transaction", STATES["25006"]),
)
"""Explanations if the driver gives no SQLSTATE, by words of SQLite and of servers in English.

The words only choose an explanation and are not shown; another language gets a general one.
"""
_STOPPED: Final = (
    "it stopped in the middle of the rows: the connection was lost, it took too long, the query "
    "would write, or it fails on a row (let it give columns as they are, without a conversion)"
)
_NO_STATE: Final = (
    "it cannot be reached, or it gave no reason that may be shown: try the query in a client on "
    "this machine"
)


@contextmanager
def translated_errors(title: str) -> Iterator[None]:
    """Translate the errors of a driver into a `DataError`; ``title`` names the data set."""
    import adbc_driver_manager

    try:
        yield
    except (adbc_driver_manager.Error, pa.ArrowException, OSError) as error:
        state = str(getattr(error, "sqlstate", None) or "")
        # An error in the middle of the rows comes through Arrow, without a code.
        unknown = _NO_STATE if isinstance(error, adbc_driver_manager.Error) else _STOPPED
        message = "" if state else str(error)
        worded = next((reason for words, reason in _WORDS if re.search(words, message)), unknown)
        reason = STATES.get(state) or STATES.get(state[:2]) or worded
    else:
        return
    raise DataError(f"{title} cannot be read: {reason}") from None
