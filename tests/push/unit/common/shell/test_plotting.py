"""What all plots share: pictures for people and for notebooks, names that fit, whole numbers."""

from pathlib import Path

from dppca.common.shell.plotting import INK, new_figure, write_figures


def test_a_figure_is_written_as_png_and_as_svg(tmp_path: Path) -> None:
    figure = new_figure(2, 1)
    figure.subplots().set_title("<script>")
    paths = write_figures(tmp_path, {"one": figure})
    assert paths == {"one": str(tmp_path / "one.png")}
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    drawn = (tmp_path / "one.svg").read_text()
    assert "<svg" in drawn
    assert "<script" not in drawn
    assert drawn.count("prefers-color-scheme:dark") == 1
    assert f'[style*="fill: {INK.lower()}"]' in drawn
    assert f'"fill: {INK.lower()}"' in drawn, "there is text in this colour, which changes"
