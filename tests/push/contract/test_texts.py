"""`tools/texts.py` finds every kind of text that a command or page shows, with its line."""

import ast

from tools.texts import KINDS, Text, texts, texts_of_module, texts_of_template

_MODULE = '''"""A module."""
_ROWS = "SELECT one FROM rows"


@click.command("open")
@click.option("--wait", help="Longest time to wait.")
def command(wait: float) -> None:
    """Open a study,
    once."""
    say(f"{count} rows were read" + _MORE)
    raise SettingError(
        f"study {study.name} is closed: "
        "ask the operator"
    )


class Opened:
    """A document."""

    rows: Annotated[int, "number of rows"]
'''
_TEMPLATE = """{# No text. #}
{% if rows %}
<p class="soft">It has <b>{{ rows | count }}</b> rows.</p>
{{ card("What it costs") }}{% endif %}
"""


def test_a_module_has_help_refusals_keys_and_lines() -> None:
    assert list(texts_of_module("a.py", ast.parse(_MODULE))) == [
        Text("a.py", 7, "help", "Open a study, once."),
        Text("a.py", 10, "line", "{count} rows were read"),
        Text("a.py", 12, "refusal", "study {study.name} is closed: ask the operator"),
        Text("a.py", 6, "help", "Longest time to wait."),
        Text("a.py", 20, "key", "number of rows"),
    ]


def test_a_template_is_shown_without_tags_and_with_the_texts_in_its_code() -> None:
    assert list(texts_of_template("a.html", _TEMPLATE)) == [
        Text("a.html", 4, "page", "What it costs"),
        Text("a.html", 3, "page", "It has { rows | count } rows."),
    ]


def test_the_product_has_texts_of_every_kind_in_every_room() -> None:
    found = list(texts())
    assert {each.kind for each in found} == set(KINDS)
    assert {each.path.partition("/")[0] for each in found} == {
        *("common", "curator", "deploy", "owner")
    }
