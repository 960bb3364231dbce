"""The table of both revisions, as JSON and in words.

`docs/reference/first-run.json` holds the figures of every round; `docs/reference/first-run.md` is
that file in words, and a test compares the two.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.environments import ROOT
from benchmarks.experiment import markdown_table

JSON_FILE, PAGE = ROOT / "docs/reference/first-run.json", ROOT / "docs/reference/first-run.md"
NOISE = 1.05
"""What is to be "not more" may be so much more: two equal programs differ by some hundredths."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table, and what was asked of it.

    Attributes
    ----------
    subject
        Whose figures it shows.
    title, unit
        What was tried; what the figures are.
    most_ratio
        Largest ratio to the older revision; None if there was none.
    most, least
        Largest and smallest figure.
    """

    subject: str
    title: str
    unit: str
    most_ratio: float | None = None
    most: float | None = None
    least: float | None = None

    @property
    def asked(self) -> str:
        """In words."""
        parts = []
        if self.most_ratio is not None:
            parts.append("not more" if self.most_ratio == NOISE else f"ratio ≤ {self.most_ratio:g}")
        if self.most is not None:
            parts.append(f"≤ {self.most:g}")
        if self.least is not None:
            parts.append(f"≥ {self.least:g}")
        return ", ".join(parts) or "–"

    def is_reached(self, ours: float | None, theirs: float | None) -> bool:
        """True if the figure of this revision is as asked, beside the older one's if it has one."""
        return (
            ours is not None
            and (self.most is None or ours <= self.most)
            and (self.least is None or ours >= self.least)
            and (self.most_ratio is None or theirs is None or ours <= self.most_ratio * theirs)
        )


_CPU = "s of processor"
ROWS: Mapping[str, Row] = {
    "first-demo": Row("first-demo", "`make demo`, all in", _CPU, 0.2, 60),
    "first-demo-clock": Row("first-demo", "the same", "s of clock"),
    "packages": Row("first-demo", "its packages", "", None, 70),
    "disk": Row("first-demo", "its disk", "GB", None, 0.7),
    "set-up": Row("set-up", "`make test`: set-up alone", _CPU, 0.2),
    "demo": Row("demo", "the demo itself", _CPU, 0.33),
    "demo-clock": Row("demo", "the same", "s of clock"),
    "run": Row("run", "`dppca-simulate run`, three files", _CPU, 0.33),
    **{
        name: Row("site", f"`{line}`", _CPU, 0.6)
        for name, line in (
            *(("review", "review"), ("contribute", "contribute --yes")),
            *((each, each) for each in ("components", "verify", "studies")),
        )
    },
    "wide": Row("wide", "`dppca.simulate(target=)`, wide", "s of clock", None, 15),
    "import": Row("starts", "`import dppca`", _CPU, NOISE),
    "help": Row("starts", "`dppca-owner --help`", _CPU, NOISE),
    "labels": Row("labels", "labels beside pyarrow alone", "ratio by clock", None, None, 0.45),
}

_HEAD = """# The first run

Made by `python -m benchmarks.first_run --against {theirs} --write` from
[first-run.json](first-run.json): both revisions are installed and tried in turn; medians of
{rounds}. *Ratio* is to the older one. Times of the processor are of all processes of a command, the
peak of the largest. Installers begin with empty caches. In bold: what missed what was asked, and
peaks above the older ones; {noise:.0%} more is noise.

"""
_FOOT = """
Three files: 6,000 rows each, 12 attributes, a target. The site is an owner of one of them; its
curator runs on the same machine. Wide: 129 columns, 50,000 rows at three owners, three classes.
Labels: Adult's rows from Parquet, read alone over read and summed, on all cores.
"""
_FACTS = ("processor", "cores", "memory", "system", "Python")


def keep(found: Mapping[str, Any]) -> None:
    """Write both files."""
    JSON_FILE.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(found))


def page(found: Mapping[str, Any]) -> str:
    """The whole page."""
    rounds = "one round" if found["rounds"] == 1 else f"{found['rounds']} rounds"
    head = _HEAD.format(theirs=found["theirs"], rounds=rounds, noise=NOISE - 1)
    facts = ", ".join(f"{name} {found['machine'][name]}" for name in _FACTS)
    before, after = found["load"]
    made = f"\nRevision {found['ours']}; load {before} before, {after} after; {facts}.\n"
    return head + table(found) + _FOOT + made


def table(found: Mapping[str, Any]) -> str:
    """The table, and below it the errors of rows that failed, in full."""
    header = ("", found["ours"], "ratio", "asked", "peak MiB")
    lines = [_line(ROWS[name], sides) for name, sides in found["rows"].items()]
    failures = [
        f"- {ROWS[name].title}, {found[side]}: {' '.join(series['error'].split())}\n"
        for name, sides in found["rows"].items()
        for side, series in sides.items()
        if _is_failed(series)
    ]
    text = markdown_table(header, lines, words=(0, 3))
    return text + ("\n" + "".join(failures) if failures else "")


def _line(row: Row, sides: Mapping[str, Mapping[str, Any]]) -> list[str]:
    theirs, ours = (_middle(sides[side]["values"]) for side in ("theirs", "ours"))
    before, now = (_middle(sides[side]["peaks"]) for side in ("theirs", "ours"))
    ratio = "–" if ours is None or theirs is None else f"{ours / theirs:.2f}"
    figure = _shown(ours, sides["ours"])
    if not row.is_reached(ours, theirs):
        figure = f"**{figure}**"
    peak = "–" if now is None else f"{now:.0f}"
    if now is not None and before is not None and now > NOISE * before:
        peak = f"**{peak}**"
    title = f"{row.title}, {row.unit}" if row.unit else row.title
    return [title, figure, ratio, row.asked, peak]


def _shown(value: float | None, series: Mapping[str, Any]) -> str:
    if series["error"]:
        return "failed" if _is_failed(series) else str(series["error"])
    return "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _is_failed(series: Mapping[str, Any]) -> bool:
    """True if there is more to say than that it was given up after some time."""
    return bool(series["error"]) and not series["error"].startswith("not done in")


def _middle(values: list[float]) -> float | None:
    return median(values) if values else None
