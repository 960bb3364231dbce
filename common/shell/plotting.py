"""Shared parts of plots: two distinguishable colours, and matplotlib's canvas without a display.

Colours and font are those of the pages (`common/pages/static/page.css`, light). The two colours
differ in lightness too, and a plot always adds a second sign: filled and hollow, hatched and plain,
dashed and solid. matplotlib is optional (the
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

from dppca.common.kernel.documents.names import one_line
from dppca.common.shell.packages import require_package

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#0B5CAD", "#B35900", "#7C858E"
INK, WARNING_RED = "#1C2024", "#B42318"
DARK = {
    "#ffffff": "#16181b",
    INK: "#e6e8eb",
    GREY: "#89929b",
    BLUE: "#6ab0f3",
    ORANGE: "#f0a04b",
    WARNING_RED: "#ff8f83",
}
"""Colours of a plot where a page is dark; #fefefe and #000000 stay, for text on a filled cell."""
_FONTS = ("Segoe UI", "Roboto", "Noto Sans", "DejaVu Sans")
DPI = 150  # dots per inch of a PNG


def check_plotting() -> None:
    """Raise `SettingError` if matplotlib is not installed, before anything is run."""
    require_package("matplotlib", purpose="a plot").use("Agg")


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure on an Agg canvas; width and height in inches."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.font_manager import fontManager

    class Picture(Figure):
        """A figure that notebooks show as an image."""

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", dpi=DPI)
            return buffer.getvalue()

    installed = {font.name for font in fontManager.ttflist}
    mpl.rcParams |= {
        "text.parse_math": False,  # also for texts that are made later, such as ticks'
        "font.family": next(font for font in _FONTS if font in installed),
        "axes.spines.top": False,
        "axes.spines.right": False,
        **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), GREY),
        **dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor"), INK),
        **dict.fromkeys(("xtick.labelcolor", "ytick.labelcolor"), INK),
    }
    figure = Picture(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def write_figures(folder: Path, figures: Mapping[str, Figure]) -> dict[str, str]:
    """Write each figure as PNG and SVG; return the paths of the PNG files by name."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    paths = {name: folder / f"{name}.png" for name in figures}
    for name, figure in figures.items():
        figure.set_dpi(DPI)
        # `savefig` would draw twice, once for the layout, which a canvas finds as it draws.
        canvas: Any = FigureCanvasAgg(figure)
        canvas.print_png(paths[name])
        figure.set_layout_engine("none")  # everything has its place now
        paths[name].with_suffix(".svg").write_bytes(make_svg(figure))
    return {name: str(path) for name, path in paths.items()}


def make_svg(figure: Figure, **metadata: str) -> bytes:
    """Return a figure as SVG, dark where its reader prefers that; metadata are Dublin Core's."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.BytesIO()
    figure.set_dpi(DPI)  # of images inside
    canvas: Any = FigureCanvasSVG(figure)
    canvas.print_svg(buffer, metadata=metadata)
    rules = "".join(
        f'[style*="{kind}: {light.lower()}"]{{{kind}:{dark}!important}}'
        for light, dark in DARK.items()
        for kind in ("fill", "stroke")
    )
    style = f"<style>@media(prefers-color-scheme:dark){{{rules}}}</style>"
    return buffer.getvalue().replace(b"<defs>", f"{style}<defs>".encode(), 1)


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
