"""Shared parts of all plots: a canvas without a display, and two distinguishable colours.

The two colours are from the Okabe-Ito palette and differ in lightness too; a plot always adds a
second sign: filled and hollow, hatched and plain, dashed and solid. matplotlib is optional (the
extra ``simulate``) and is imported when something is drawn.

Names of attributes and labels are drawn literally: no text is read as mathematics (``$...$``),
because matplotlib would fail to draw invalid mathematics. Axes with a logarithmic scale therefore
need `plain_numbers`.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dppca.common.documents.names import one_line
from dppca.common.shell.packages import require_package

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "#555555"
WARNING_RED = "#B00020"
DPI = 150


def check_plotting() -> None:
    """Raise `SettingError` if matplotlib is not installed, before anything is run."""
    require_package("matplotlib", purpose="a plot").use("Agg")


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure on an Agg canvas; width and height in inches."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A figure that notebooks show as an image."""

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", dpi=DPI)
            return buffer.getvalue()

    mpl.rcParams["text.parse_math"] = False  # also for texts that are made later, such as ticks'
    figure = Picture(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def write_figures(folder: Path, figures: Mapping[str, Figure]) -> dict[str, str]:
    """Write each figure as PNG and SVG; return the paths of the PNG files by name."""
    paths = {name: folder / f"{name}.png" for name in figures}
    for name, figure in figures.items():
        for path in (paths[name], paths[name].with_suffix(".svg")):
            figure.savefig(path, dpi=DPI)
    return {name: str(path) for name, path in paths.items()}


def shortened(name: str, most: int) -> str:
    """Return a name for a plot, of at most ``most`` characters; a cut one ends in an ellipsis."""
    return one_line(name if len(name) <= most else name[: most - 1] + "…")


def whole_numbers(axis: Any) -> None:
    """Put ticks at whole numbers only, such as numbers of components."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def plain_numbers(axis: Any) -> None:
    """Write the numbers of a logarithmic axis without mathematics, once its scale is set.

    matplotlib still chooses the places with numbers.
    """
    from matplotlib.ticker import LogFormatter

    class Plain(LogFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""

    axis.set_major_formatter(Plain())
    axis.set_minor_formatter(Plain())
