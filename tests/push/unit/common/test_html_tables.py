"""Nothing in a cell is markup."""

from __future__ import annotations

from dppca.common.html_tables import html_table, html_text
from tests.support.studies import make_study, numeric_of


def test_a_cell_is_text() -> None:
    assert html_text('<b>"a"\n&\x1b') == "&lt;b&gt;&quot;a&quot;\\x0a&amp;\\x1b"
    table = html_table(("<i>",), [("<script>",)], caption="<u>")
    assert "<script>" not in table
    assert table.startswith("<table><caption>&lt;u&gt;</caption><thead><tr><th>&lt;i&gt;</th>")
    assert html_table((), []) == "<table><tbody></tbody></table>"


def test_a_study_and_a_schema_show_themselves_in_a_notebook() -> None:
    study = make_study("latent")
    page = study._repr_html_()
    for said in (study.name, study.digest, "epsilon", "ill", *study.owners):
        assert said in page
    table = study.table._repr_html_()
    for said in ("-2 to 2", "no, yes", "red, green, blue", "6 attributes, 8 coded columns"):
        assert said in table


def test_names_of_a_study_are_no_markup() -> None:
    attributes = [numeric_of(f"<img src={name}>", 0, 1) for name in "ab"]
    study = make_study(attributes)
    assert "<img" not in study._repr_html_() + study.table._repr_html_()
