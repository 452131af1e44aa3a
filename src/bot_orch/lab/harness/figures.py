"""Style of figures: readable in black and white, saved as PNG and SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bot_orch.errors import MissingExtraError

#: Colour, line style and marker per method; any one of them is enough to tell lines apart.
STYLES: dict[str, tuple[str, Any, str]] = {
    "bot-orch": ("#00796b", "-", "o"),
    "no-ot": ("#c62828", "--", "s"),
    "random": ("#757575", ":", "^"),
    "ucb1": ("#1a4fa0", "-.", "D"),
    "thompson-beta": ("#8e24aa", (0, (5, 1)), "v"),
    "oracle": ("#000000", (0, (1, 1)), "*"),
}
#: Of lines that have no name of their own.
COLORS = ("#1a4fa0", "#00796b", "#c62828", "#8e24aa", "#ef6c00", "#5d4037", "#00838f", "#689f38")
_LINES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (8, 2)), (0, (2, 2)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
_RC = {
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "svg.hashsalt": "bot-orch",
    "figure.constrained_layout.use": True,
}

Saved = tuple[Path, Path]


def style(method: str, index: int = 0) -> dict[str, Any]:
    """Line settings of a method; of one that has none those of ``index``."""
    if method not in STYLES:
        return series(index)
    color, line, marker = STYLES[method]
    return {"color": color, "linestyle": line, "marker": marker, "markersize": 4, "linewidth": 1.6}


def series(index: int, **settings: Any) -> dict[str, Any]:
    """Settings of a line by its place; colour, dashes and mark all change from one to the next."""
    at = index % len(COLORS)
    look = {"color": COLORS[at], "linestyle": _LINES[at], "marker": _MARKERS[at], "markersize": 4, "linewidth": 1.4}
    return look | settings


def new_figure(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Any, Any]:
    """A figure with a grid of axes, always indexable as ``axes[row, column]``."""
    matplotlib = _matplotlib()
    with matplotlib.rc_context(_RC):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height))
        return figure, figure.subplots(rows, columns, squeeze=False, **options)


def band(axis: Any, x: Any, mean: Any, *, spread: Any, method: str, label: str | None = None, every: int = 12) -> None:
    """Draw a line with a shaded band of one ``spread``."""
    look = style(method)
    axis.plot(x, mean, label=label or method, markevery=max(1, len(x) // every), **look)
    axis.fill_between(x, mean - spread, mean + spread, color=look["color"], alpha=0.15, linewidth=0)


def paper_points(axis: Any, x: Any, values: Any, *, color: str = "black", label: str = "paper") -> list[Any]:
    """The paper's values as crosses, above the lines; a value that is not printed is not drawn."""
    points: list[Any] = axis.plot(x, values, "x", color=color, markersize=5, label=label, zorder=5)
    return points


def plot_hull(axis: Any, vertices: Sequence[tuple[float, float]]) -> None:
    """The hull as a line; straight in dollars, so curved on a logarithmic axis."""
    cost, reward = (np.array(each, dtype=float) for each in zip(*vertices, strict=True))
    grid = np.unique(np.concatenate([np.geomspace(max(cost[0], 1e-12), max(cost[-1], 1e-12), 200), cost]))
    axis.plot(
        grid, np.interp(grid, cost, reward), color="black", linestyle="--", linewidth=1.3, label="hull of fixed agents"
    )


def save_figure(draw: Callable[[], Any], stem: Path) -> Saved:
    """Draw and write ``stem.png`` and ``stem.svg``; the same data gives the same bytes."""
    matplotlib = _matplotlib()
    stem.parent.mkdir(parents=True, exist_ok=True)
    png, svg = stem.with_suffix(".png"), stem.with_suffix(".svg")
    with matplotlib.rc_context(_RC):
        figure = draw()
        figure.savefig(png, dpi=130, metadata={"Software": None})
        figure.savefig(svg, metadata={"Date": None, "Creator": None})
    return png, svg


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("drawing figures", "reproduce") from error
    return matplotlib
