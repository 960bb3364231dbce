"""YAML that a person writes: what is refused is said without a word of it."""

from __future__ import annotations

import pytest

from dppca.common.yaml_documents import NotYamlError, load_yaml

WORD = "hunter2"


@pytest.mark.parametrize(
    "value",
    [
        f"*{WORD}",
        f"!{WORD} x",
        f"!!{WORD} x",
        f"!!bool {WORD}",
        f"!!int {WORD}",
        f"!!timestamp {WORD}",
        f"{{<<: {WORD}}}",
        f"{{? [{WORD}] : 1}}",
        f'"\\{WORD}"',
        f"'{WORD}",
        f"- {WORD}: [",
    ],
)
def test_what_is_no_yaml_is_refused_and_not_repeated(value: str) -> None:
    with pytest.raises(NotYamlError) as raised:
        load_yaml(f"password: {value}\n")
    assert WORD not in str(raised.value)
    assert raised.value.__suppress_context__


def test_a_key_that_is_there_twice_is_named_with_its_line() -> None:
    with pytest.raises(NotYamlError, match="line 2, column 3: epsilon given twice"):
        load_yaml("privacy:\n  epsilon: 1\n  epsilon: 2\n")
