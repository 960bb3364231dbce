"""YAML that a person writes: what is refused is said without a word of it."""

import pytest

from dppca.common.kernel.documents.yaml_text import NotYamlError, load_yaml

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


def test_a_day_that_the_calendar_lacks_is_said_with_its_line() -> None:
    for day in ("2023-13-45", "2023-02-29", "2023-02-01T25:00:00"):
        with pytest.raises(
            NotYamlError, match="line 2, column 8: no calendar has this day"
        ) as raised:
            load_yaml(f"name: x\nlower: {day}\n")
        assert day not in str(raised.value)
    assert str(load_yaml("2023-02-28")) == "2023-02-28"


@pytest.mark.parametrize("keys", ["1: a, 1.0: b", "1: a, true: b", "0: a, -0: b"])
def test_keys_that_are_one_number_are_refused_since_only_one_would_be_kept(keys: str) -> None:
    with pytest.raises(NotYamlError, match="line 1, column 4: two keys are one number"):
        load_yaml(f"a: {{{keys}}}")
    assert load_yaml("a: &x {k: 1}\nb: {<<: *x, k: 2}") == {"a": {"k": 1}, "b": {"k": 2}}
