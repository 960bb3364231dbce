"""`doctor` says nothing about a database that was not looked at."""

import pytest

from dppca.owner.records.rights import describe_rights


@pytest.mark.parametrize("is_encrypted", [False, True])
@pytest.mark.parametrize("n_writable", [0, 2])
def test_what_a_server_cannot_see_is_not_assured(is_encrypted: bool, n_writable: int) -> None:
    said, warnings = describe_rights(
        is_clear=False,
        is_encrypted=is_encrypted,
        n_writable=n_writable,
        is_hidden=False,
        is_found_by_path=False,
    )
    assert "pooler" in said[0]
    assert ("uses TLS" in said[0]) == is_encrypted
    assert ("no right to change rows" in " ".join(said)) == (not n_writable)
    assert len(warnings) == bool(n_writable)


def test_rows_in_clear_are_a_warning_and_hidden_rows_a_remark() -> None:
    said, warnings = describe_rights(
        is_clear=True, is_encrypted=False, n_writable=0, is_hidden=True, is_found_by_path=True
    )
    assert "without TLS" in warnings[0]
    assert "row-level security hides rows" in said[-2]
    assert "search_path" in said[-1]
    assert not any("connection" in text for text in said)
