"""Charts as SVG, for pages, reports, `--plots` and notebooks.

A drawing is a text of SVG elements whose marks have the classes of the pages' stylesheet
(`common/pages/static/page.css`): filled and hollow, solid and dashed, so that no colour is needed
to read it. A page embeds a drawing; a `Chart` joins drawings to a picture that is complete in
itself, with its own style, dark where its reader prefers that. Biplots and heat maps are
matplotlib's (`dppca.common.shell.pictures`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, exp, floor, log, log10
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.loadings import Loading, Mixtures, largest_loadings
from dppca.common.kernel.documents.names import one_line
from dppca.common.kernel.schema import Schema
from dppca.common.shell.outputs import FileLaw
from dppca.common.shell.panels import Cell, Panel
from dppca.common.shell.plotting import BLUE, DARK, GREY, INK, ORANGE, WARNING_RED, shortened

_MOST_COMPONENTS = 6  # beside each other
_MOST_BARS = 12  # of an attribute; the others are one bar
_MOST_TICKS = 6  # of an axis
_LOADINGS_PER_ROW = 3  # panels beside each other
_PANELS_PER_ROW = (4, 5, 3)  # the first that leaves least of the last row empty
_LETTER = 7  # most of a letter's width
_THIN = 6  # width of a bar
_NAME_LENGTH = 28  # characters
_LABEL_LENGTH = 14  # characters
_LINE = 18  # height of a line of text
_COLOURS = {
    "paper": "#ffffff",
    "ink": INK,
    "grey": GREY,
    "blue": BLUE,
    "orange": ORANGE,
    "red": WARNING_RED,
}
_STYLE = """\
.dppca .paper{fill:var(--paper)}
.dppca text{fill:var(--ink);font:12px system-ui,"Segoe UI",Roboto,"Noto Sans",sans-serif}
.dppca .name{font-weight:600}
.dppca .notice{fill:var(--red);font-weight:600}
.dppca .first{fill:var(--blue);stroke:var(--blue)}
.dppca .hollow{fill:var(--paper);stroke:var(--blue);stroke-width:2}
.dppca .outline{fill:none;stroke:var(--orange);stroke-width:2}
.dppca .thin{stroke-width:1}
.dppca .over{paint-order:stroke;stroke:var(--paper);stroke-width:4px}
.dppca .edge{stroke:var(--orange);stroke-width:2;stroke-dasharray:6 4}
.dppca .other{fill:none;stroke:var(--grey);stroke-width:2;stroke-dasharray:2 3}
.dppca .axis{stroke:var(--grey)}
"""


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture as an SVG document, which notebooks show."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: Path, *, replace: bool = False) -> None:
        """Write the picture to a file; `SettingError` if it is there and not to be replaced."""
        FileLaw(replaceable=True).require(path, "path", replace=replace, inputs=())
        path.write_text(self.svg, encoding="utf-8")


def write_charts(folder: Path, charts: Mapping[str, Chart]) -> dict[str, str]:
    """Write each chart as SVG; return the paths of the files by name."""
    paths = {name: folder / f"{name}.svg" for name in charts}
    for name, chart in charts.items():
        paths[name].write_text(chart.svg, encoding="utf-8")
    return {name: str(path) for name, path in paths.items()}


def scree_chart(
    eigenvalues: NDArray[np.float64],
    noise_edge: float,
    *,
    count: int,
    noise_free: NDArray[np.float64],
) -> Chart:
    """Chart of the eigenvalues of the private covariance, shape (p,), descending.

    ``count`` is the number of kept ones; ``noise_free``, shape (p,), descending, are those without
    noise, which only a simulation knows.
    """
    texts = [
        f"filled: above the noise edge; hollow: not above it. The first {count} are kept",
        "dashed: noise edge, the largest eigenvalue of noise alone in 95 % of draws",
        "dotted: without noise (known to a simulation only)",
    ]
    drawing = draw_scree(eigenvalues.tolist(), noise_edge, noise_free=noise_free.tolist())
    return _join([drawing], (760, 300), 1, title="Eigenvalues (coded units)", texts=texts)


def draw_scree(values: Sequence[float], edge: float, *, noise_free: Sequence[float] = ()) -> str:
    """Draw eigenvalues as bars with the noise edge, 760 by 300: filled above it, hollow below."""
    top = 1.05 * max(*values, *noise_free, edge, 1e-12)
    low = 1.05 * min(*values, *noise_free, 0.0)
    wide, named = 560 / len(values), len(values) // 8 + 1

    def height(value: float) -> float:
        return 20 + 220 * (top - value) / (top - low)

    zero, line = height(0.0), height(edge)
    parts = [_line("axis", 60, zero, 625, zero)]
    for rank, value in enumerate(values, start=1):
        left, above = 62 + (rank - 1) * wide, value > edge
        told = f"{rank}: {value:.4g}, {'above' if above else 'not above'} the noise edge"
        box = (left, min(height(value), zero), 0.75 * wide, abs(height(value) - zero))
        parts.append(_bar("first" if above else "hollow", *box, told))
        if rank == 1 or rank % named == 0:
            parts.append(_text(left + 0.375 * wide, 268, str(rank), "middle"))
    points = [(62 + (i + 0.375) * wide, height(each)) for i, each in enumerate(noise_free)]
    if points:
        parts.append(f'<polyline class="other" points="{_points(points)}"/>')
    parts += [
        _line("edge", 60, line, 625, line, f"noise edge: {edge:.4g}"),
        _text(630, min(line, 274) + 4, f"noise {edge:.4g}"),
        _text(340, 292, "component", "middle"),
        _text(54, zero + 4, "0", "end"),
        _text(54, min(height(max(values)), zero) + 4, f"{max(values):.4g}", "end"),
    ]
    return "\n".join(parts)


def draw_forest(
    rows: Sequence[tuple[str, float | None, float, float]], *, ratios: bool = False
) -> str:
    """Draw estimates with their intervals, 760 by 44 and 26 for each row: a forest plot.

    A row is a name, an estimate (None where the interval is all that is known) and both ends of its
    interval; there is one at least. Of ``ratios`` above 0 the axis is logarithmic.
    """
    ends = [each for row in rows for each in row[1:] if each is not None]
    is_log = ratios and min(ends) > 0
    low, high = (log(each) if is_log else each for each in (min(ends), max(ends)))
    if low == high:
        low, high = low - 0.5, high + 0.5
    foot, nothing = 14 + 26 * len(rows), float(ratios)

    def place(value: float) -> float:
        return 250 + 480 * ((log(value) if is_log else value) - low) / (high - low)

    parts = [_line("axis", 250, foot, 730, foot)]
    for value in _round_ratios(low, high) if is_log else _round_numbers(low, high):
        parts += [
            _line("axis", place(value), foot, place(value), foot + 5),
            _text(place(value), foot + 22, f"{value:.6g}", "middle"),
        ]
    if min(ends) < nothing < max(ends):
        parts.append(_line("axis", place(nothing), 4, place(nothing), foot))
    for number, (name, estimate, least, most) in enumerate(rows):
        y = 18 + 26 * number
        known = "" if estimate is None else f" {estimate:.4g},"
        told = f"{name}:{known} from {least:.4g} to {most:.4g}"
        parts += [
            _text(240, y + 4, _short(name), "end"),
            _bar("first", place(least), y - 1, place(most) - place(least), 2, told),
        ]
        if estimate is not None:
            parts.append(f'<circle class="first" cx="{place(estimate):.1f}" cy="{y}" r="5"/>')
    return "\n".join(parts)


def loadings_chart(
    schema: Schema,
    vectors: NDArray[np.float64],
    eigenvalues: NDArray[np.float64],
    noise_edge: float,
    mixtures: Mixtures,
) -> Chart:
    """Chart of the twelve largest loadings of each of the first six components.

    ``vectors`` has the components as rows, shape (k, p); ``eigenvalues`` is descending, of length k
    or more, and ``noise_edge`` is in the same units. A component of ``mixtures`` has no bars.
    """
    drawn = largest_loadings(schema, vectors[:_MOST_COMPONENTS], most=_MOST_BARS)
    drawings = []
    for number, (loadings, mixed) in enumerate(zip(drawn, mixtures, strict=False), start=1):
        value = float(eigenvalues[number - 1])
        side = "above the noise edge" if value > noise_edge else "NOT above the noise edge"
        if mixed:
            side = f"any mixture of {', '.join(map(str, mixed))} is as good"
        name = f"component {number}: {value:.3g}"
        drawings.append(_draw_loadings(() if mixed else loadings, name, side))
    size = (380, 60 + _LINE * max(len(loadings) for loadings in drawn))
    texts = ["loading, from −1 to 1 (coded units); hollow: negative"]
    return _join(drawings, size, min(_LOADINGS_PER_ROW, len(drawn)), texts=texts)


def _draw_loadings(loadings: Sequence[Loading], name: str, side: str) -> str:
    zero, unit = 280, 90
    foot = 44 + _LINE * len(loadings)
    parts = [_text(10, 14, name, kind="name"), _text(10, 32, side)]
    for place, each in enumerate(loadings):
        top, long = 44 + _LINE * place, unit * abs(each.loading)
        box = (zero if each.loading > 0 else zero - long, top, long, _LINE - 5)
        kind = "first" if each.loading > 0 else "hollow"
        parts.append(_bar(kind, *box, f"{each.name}: {each.loading:+.3f}"))
        parts.append(_text(zero - unit - 6, top + 11, _short(each.name), "end"))
    parts += [_line("axis", zero + x * unit, 42, zero + x * unit, foot) for x in (-1, 0, 1)]
    parts += [_text(zero + x * unit, foot + 13, f"{x:g}", "middle") for x in (-1, 0, 1)]
    return "\n".join(parts)


def marginals_chart(panels: Sequence[Panel], names: tuple[str, str], *, notice: str) -> Chart:
    """Chart of the shares of each attribute in two tables: filled bars, and hollow ones in front.

    ``names`` denote the real and the synthetic rows; ``notice``, at the top, says where the picture
    may go.
    """
    columns = min(len(panels), min(_PANELS_PER_ROW, key=lambda each: -len(panels) % each))
    texts = [f"share of rows; filled: {names[0]}; outlined: {names[1]}"]
    drawings = [_draw_panel(panel, names) for panel in panels]
    return _join(drawings, (320, 250), columns, notice=notice, texts=texts)


def _draw_panel(panel: Panel, names: tuple[str, str]) -> str:
    """Draw one attribute, 320 by 250; a value that would hide the others is cut and written."""
    cells, apart = panel.cells, _apart(panel)
    others = [max(c.ours, c.theirs) for i, c in enumerate(cells) if i not in apart]
    largest = max(max(c.ours, c.theirs) for c in cells)
    top = 1.4 * max(others, default=0.0)
    cut = 0 < 2 * top < largest
    top = top if cut else 1.05 * max(largest, 1e-12)
    wide = 260 / len(cells)
    parts = [
        _text(10, 14, _short(panel.name), kind="name"),
        *(_line("axis", *ends) for ends in ((50, 160, 312, 160), (50, 30, 50, 160))),
        _text(46, 38, f"{top:.0%}", "end"),
        _text(46, 164, "0", "end"),
    ]
    for index, cell in enumerate(cells):
        parts += _draw_cell(cell, 52 + index * wide, wide, top, names)
    high = [cells[i] for i in apart if cut and max(cells[i].ours, cells[i].theirs) > top]
    for line, cell in enumerate(high):
        text = f"{cell.name}: {cell.ours:.0%}, {cell.theirs:.0%}"
        parts.append(_text(48 + apart[0] * wide, 42 + 15 * line, text, "end", kind="over"))
    parts += _draw_ticks(_ticks(panel, apart), wide)
    if panel.left_out:
        parts.append(_text(312, 27, f"and {panel.left_out} rarer labels", "end"))
    return "\n".join(parts)


def _draw_cell(
    cell: Cell, left: float, wide: float, top: float, names: tuple[str, str]
) -> list[str]:
    parts = []
    outline = "outline" if wide > 2 * _THIN else "outline thin"
    for kind, inset, share, name in (
        ("first", 0.05, cell.ours, names[0]),
        (outline, 0.15, cell.theirs, names[1]),
    ):
        high = 130 * min(share / top, 1.0)
        box = (left + inset * wide, 160 - high, (1 - 2 * inset) * wide, high)
        parts.append(_bar(kind, *box, f"{cell.name}: {share:.1%} of {name}"))
    return parts


def _apart(panel: Panel) -> list[int]:
    """Places of a number's values that lie beside its intervals, such as ``= 0``."""
    return [i for i, cell in enumerate(panel.cells) if panel.numeric and cell.name[0] in "(="]


def _ticks(panel: Panel, apart: Sequence[int]) -> dict[float, str]:
    """Return the names under a panel, by place in widths of a cell; numbers have round ones."""
    cells = panel.cells
    step = ceil(len(cells) / 12) if panel.numeric else 1
    named = {
        i + 0.5: cell.name
        for i, cell in enumerate(cells)
        if i in apart or (i % step == 0 and not panel.edges)
    }
    for value in _round_numbers(panel.edges[0], panel.edges[-1]) if panel.edges else ():
        place = float(np.interp(value, panel.edges, np.arange(len(panel.edges))))
        if all(abs(place - i - 0.5) > len(cells) / 12 for i in apart):
            named[place] = f"{value:g}"
    return named


def _round_numbers(low: float, high: float) -> list[float]:
    """Multiples of 1, 2, 2.5 or 5 times a power of ten, from low to high; seven at most."""
    least = (high - low) / _MOST_TICKS
    power = 10.0 ** floor(log10(least))
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= least)
    return [n * step for n in range(ceil(low / step), floor(high / step) + 1)]


def _round_ratios(low: float, high: float) -> list[float]:
    """Powers of ten, or 1, 2 and 5 times these, between logarithms; else numbers, seven at most."""
    first, last = floor(low / log(10)), ceil(high / log(10))
    for steps in ((1, 2, 5), (1,)):
        every = [each * 10.0**power for power in range(first, last + 1) for each in steps]
        found = [each for each in every if low <= log(each) <= high]
        if 1 < len(found) <= _MOST_TICKS:
            return found
    if len(found) > 1:  # many powers of ten
        return found[:: -(-len(found) // _MOST_TICKS)]
    return _round_numbers(exp(low), exp(high))


def _draw_ticks(named: Mapping[float, str], wide: float) -> list[str]:
    """Draw names under their places; slanted, and moved to the right, if some would touch."""
    labels = [(52 + x * wide, shortened(named[x], _LABEL_LENGTH)) for x in sorted(named)]
    if all(
        other - x > _LETTER * (len(label) + len(following) + 2) / 2
        for (x, label), (other, following) in pairwise(labels)
    ):
        return [_text(x, 176, label, "middle") for x, label in labels]
    drawn, least = [], 0.0
    for x, label in labels:
        least = max(x, least + 14)
        text = _text(0, 0, label, "end")
        drawn.append(f'<g transform="translate({least + 4:.1f} 168) rotate(-60)">{text}</g>')
    return drawn


def _join(
    drawings: Sequence[str],
    size: tuple[int, int],
    columns: int,
    *,
    title: str = "",
    notice: str = "",
    texts: Sequence[str] = (),
) -> Chart:
    """Join drawings of one size in rows, with texts above and below."""
    width, height = size[0] * columns, size[1] * ceil(len(drawings) / columns)
    heads = [(notice, "notice"), (title, "name")]
    parts = [
        _text(10, _LINE * line, text, kind=kind)
        for line, (text, kind) in enumerate((each for each in heads if each[0]), start=1)
    ]
    head = _LINE * len(parts) + 10
    for place, drawing in enumerate(drawings):
        x, y = size[0] * (place % columns), head + size[1] * (place // columns)
        parts.append(f'<g transform="translate({x} {y})">\n{drawing}\n</g>')
    foot = head + height
    parts += [_text(10, foot + _LINE * line, text) for line, text in enumerate(texts, start=1)]
    whole = foot + _LINE * len(texts) + 10
    drawn = "\n".join(parts)
    about = escape(" ".join(text for text in (notice, title, *texts) if text))
    return Chart(
        f'<svg xmlns="http://www.w3.org/2000/svg" class="dppca" role="img" width="{width}" '
        f'height="{whole}" viewBox="0 0 {width} {whole}">\n<title>{about}</title>\n'
        f"<style>{_style()}</style>\n"
        f'<rect class="paper" width="{width}" height="{whole}"/>\n{drawn}\n</svg>\n'
    )


def _style() -> str:
    light = "".join(f"--{name}:{value};" for name, value in _COLOURS.items())
    dark = "".join(f"--{name}:{DARK[value]};" for name, value in _COLOURS.items())
    return f".dppca{{{light}}}\n{_STYLE}@media(prefers-color-scheme:dark){{.dppca{{{dark}}}}}"


def _short(name: str) -> str:
    return shortened(name, _NAME_LENGTH)


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _bar(kind: str, x: float, y: float, width: float, height: float, told: str) -> str:
    box = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect class="{kind}" {box}><title>{_escaped(told)}</title></rect>'


def _line(kind: str, x1: float, y1: float, x2: float, y2: float, told: str = "") -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    title = f"<title>{_escaped(told)}</title>" if told else ""
    return f'<line class="{kind}" {ends}>{title}</line>'


def _text(x: float, y: float, text: str, anchor: str = "start", *, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_escaped(text)}</text>'


def _escaped(text: str) -> str:
    return escape(one_line(text))
