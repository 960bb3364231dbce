import pytest

from dppca.common.shell.study_words import name_list


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], ""),
        (["a"], "a"),
        (["me"], "you"),
        (["a", "me"], "you and a"),
        (["a", "b", "me"], "you, a and b"),
    ],
)
def test_names_stand_as_in_a_sentence_with_the_reader_first(names: list[str], said: str) -> None:
    assert name_list(names, "me") == said
