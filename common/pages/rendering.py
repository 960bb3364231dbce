"""Pages from Jinja templates: everything is escaped, and invisible characters are shown as escapes.

A template may stand in this folder or in the folder of a side. No value of a page is markup: Jinja
escapes every one (autoescape), after `dppca.common.kernel.documents.names.one_line` has made hidden
characters visible. A page is sent to a browser, with the stylesheet beside it, or written to one
file (`render_file`) that contains the stylesheet, has no script, and whose own policy forbids any.
Jinja is optional (the extra ``page``) and is imported when a page is made.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dppca.common.kernel.documents.amounts import left_text, spent_text
from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.documents.stated import WHOSE
from dppca.common.kernel.durable.clock import duration_text, utc_now
from dppca.common.kernel.privacy.receipts import SOFTWARE
from dppca.common.shell.charts import draw_forest, draw_scree
from dppca.common.shell.packages import require_package
from dppca.common.shell.study_words import (
    as_time,
    exact_time,
    name_list,
    show_state,
    waits_for_ever,
)

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

FOLDER = Path(__file__).parent
STATIC = FOLDER / "static"


def check_report() -> None:
    """Raise `SettingError` if Jinja or matplotlib is missing, before anything is run."""
    require_package("matplotlib", "jinja2", purpose="a report").use("Agg")


def check_server() -> None:
    """Raise `SettingError` if a page cannot be served, before anything is run."""
    require_package("jinja2", "starlette", "uvicorn", purpose="the page")


def render(folders: Sequence[Path], template: str, **values: Any) -> str:
    """Render a page; ``folders`` hold the side's own templates."""
    return _environment(tuple(folders)).get_template(template).render(software=SOFTWARE, **values)


def render_file(folders: Sequence[Path], template: str, **values: Any) -> str:
    """Render a page that is complete in itself: no script, no link, no network."""
    style = (STATIC / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'"
    return render(folders, template, style=style, policy=policy, **values)


def show_time(time: str | datetime, now: datetime) -> str:
    """Return a time as people say it at a moment, in this machine's time zone.

    ``22 November, 19:30``; with the year where that is another one; further than a day ahead, the
    day and how long that is: ``31 January 2027 (in 69 d)``.
    """
    moment, present = as_time(time).astimezone(), now.astimezone()
    day = f"{moment.day} {moment:%B}" + (f" {moment:%Y}" if moment.year != present.year else "")
    ahead = moment - present
    if ahead.days >= 1:
        return f"{day} (in {duration_text(ahead)})"
    return f"{day}, {moment:%H:%M}"


def _when(time: str | datetime) -> Markup:
    """Return a time as people say it, exact in its title."""
    from markupsafe import Markup

    shown, exact = show_time(time, utc_now()), exact_time(time)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        as_time(time).isoformat(), exact, shown
    )


def _until(time: str | datetime) -> Markup:
    """Return until when something waits, and whether that has passed."""
    from markupsafe import Markup

    passed = ", which has passed" if as_time(time) <= utc_now() else ""
    return Markup("until {}{}").format(_when(time), passed)


def _address(address: str) -> Markup:
    """Return a ``HOST:PORT`` in parts that stay whole where a line ends: it breaks at a dot."""
    from markupsafe import Markup

    parts = re.findall(r"[^.:]*(?:\.|:.*$)|[^.:]+$", one_line(address))
    return Markup("").join(Markup('<span class="whole">{}</span>').format(each) for each in parts)


@cache
def _environment(folders: tuple[Path, ...]) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([*folders, FOLDER / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.globals["whose_words"] = WHOSE
    environment.filters |= {
        "figure": _figure,
        "spent": spent_text,
        "left": left_text,
        "percent": _percent,
        "count": _count,
        "of": _of,
        "quoted": _quoted,
        "when": _when,
        "exact": exact_time,
        "sentence": _sentence,
        "coded": _coded,
        "state": show_state,
        "waits_for_ever": lambda name: _coded(waits_for_ever(name)),
        "named": name_list,
        "until": _until,
        "address": _address,
        "lasting": duration_text,
        "lines": _lines,
        "scree": _scree,
        "forest": _forest,
    }
    return environment


def _shown(value: Any) -> Any:
    """Return text with hidden characters as escapes; a macro's markup stays unchanged."""
    return one_line(value) if type(value) is str else value


def _quoted(text: str) -> str:
    """Return words of others in quotes that nothing in them can close."""
    return f"“{text.replace('“', '‘').replace('”', '’')}”"


def _figure(value: float) -> str:
    return f"{value:.4g}"


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _sentence(text: str) -> str:
    """Return text with one full stop at its end."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _coded(text: str) -> Markup:
    """Return the text of a message, with the parts between backquotes as code."""
    from markupsafe import Markup, escape

    parts = one_line(text).split("`")
    if len(parts) % 2 == 0:
        return escape("`".join(parts))
    code = Markup("<code>{}</code>")
    return Markup("").join(
        code.format(part) if place % 2 else part for place, part in enumerate(parts)
    )


def _lines(text: str) -> Markup:
    """Return a text of several lines; hidden characters in each are shown as escapes."""
    from markupsafe import Markup, escape

    return Markup("\n").join(escape(one_line(line)) for line in text.splitlines())


def _scree(values: Sequence[float], edge: float) -> Markup:
    """Return the bars of a chart of eigenvalues, whose texts are numbers."""
    from markupsafe import Markup

    return Markup(draw_scree(values, edge))  # noqa: S704


def _forest(rows: Sequence[Mapping[str, Any]], *, ratios: bool = False) -> Markup:
    """Return the intervals of estimates; their names are escaped where they are drawn."""
    from markupsafe import Markup

    drawn = [(each["name"], each["estimate"], each["low"], each["high"]) for each in rows]
    return Markup(draw_forest(drawn, ratios=ratios))  # noqa: S704


def _count(value: int) -> str:
    return f"{value:,}"


def _of(value: int, what: str) -> str:
    """Return a number of things, such as "1 row" and "2,000 people"; ``what`` is the plural."""
    return many(value, what, ",")
