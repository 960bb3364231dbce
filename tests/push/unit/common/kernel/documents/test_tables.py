"""Tables fit into a terminal, and stay in columns where they can; no cell is markup."""

from hypothesis import given
from hypothesis import strategies as st

from dppca.common.kernel.documents.tables import fit_markdown, html_table, html_text, text_table
from tests.support.studies import make_study, numeric_of

NAMES = ("noise", "epsilon", "captured")


def test_tables_of_markdown_are_drawn_for_the_terminal_and_the_rest_stays() -> None:
    text = "# Noise\n\n| name | is |\n| --- | --- |\n| a\\|b | 1 |\n| c |  |\n\nSaid | so.\n"
    assert fit_markdown(text, width=None) == text
    assert fit_markdown(text, width=9) == "# Noise\n\nname  is\na|b   1\nc\n\nSaid | so.\n"
    assert fit_markdown(text, width=7) == "# Noise\n\na|b\n    is\n    1\nc\n\nSaid | so.\n"


WORDS = st.text("abc 012", min_size=1, max_size=12).map(str.strip).filter(bool)


@given(
    rows=st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=5),
    width=st.integers(20, 60),
)
def test_no_line_is_wider_than_the_terminal_and_no_word_is_lost(
    rows: list[tuple[str, str, str]], width: int
) -> None:
    lines = text_table(NAMES, rows, width=width)
    assert max(map(len, lines)) <= width
    words = " ".join(lines).replace(",", "").split()
    assert all(word in words for row in rows for cell in row for word in cell.split())


def test_a_cell_is_text() -> None:
    assert html_text('<b>"a"\n&\x1b') == "&lt;b&gt;&quot;a&quot;\\x0a&amp;\\x1b"
    table = html_table(("<i>",), [("<script>",)], caption="<u>")
    assert "<script>" not in table
    assert table.startswith("<table><caption>&lt;u&gt;</caption><thead><tr><th>&lt;i&gt;</th>")
    assert html_table((), []) == "<table><tbody></tbody></table>"


def test_names_in_the_notebooks_tables_of_a_study_and_a_schema_are_no_markup() -> None:
    study = make_study([numeric_of(f"<img src={name}>", 0, 1) for name in "ab"])
    page = study._repr_html_() + study.table._repr_html_()
    assert study.digest in page
    assert "&lt;img" in page
    assert "<img" not in page
