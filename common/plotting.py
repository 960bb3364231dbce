"""What all plots share: a canvas without a display, and two colours that anybody can tell apart.

Two colours of the Okabe-Ito palette, which differ in lightness too; beside the colour a plot
always gives a second sign: filled against hollow, hatched against plain, dashed against solid.
matplotlib is an optional dependency (``dppca[simulate]``) and is imported when something is drawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.errors import SettingError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "#555555"
DPI = 150


def check_plotting() -> None:
    """`SettingError` where matplotlib is not installed; found out before anything is run."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        message = "plots need matplotlib: pip install 'dppca[simulate]'"
        raise SettingError(message) from error
    mpl.use("Agg")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure on an Agg canvas; width and height in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure
