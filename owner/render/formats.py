"""Texts that propose how a data set's text files are written; site-only, as `check` is."""

from collections.abc import Sequence
from shlex import quote

from dppca.common.kernel.documents.names import one_line
from dppca.owner.records.text_format import TextFormat


def format_lines(formats: Sequence[TextFormat], data_set: str | None) -> list[str]:
    """Return the lines for policy.yaml, or the option for a file that is no data set."""
    if not formats:
        return []
    lines = [
        "HOW IS IT WRITTEN? More cells are read with this "
        + ("option:" if data_set is None else f"in policy.yaml, in data set {data_set}:")
    ]
    for number, each in enumerate(formats):
        if number:
            lines.append("or, with other values (ask who wrote the file):")
        text = each.to_yaml()
        lines.append(f"  --format {quote(text)}" if data_set is None else f"      format: {text}")
    return [*map(one_line, lines)]
