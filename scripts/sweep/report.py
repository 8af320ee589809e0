"""Report of a sweep: an HTML file with inline plots."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib.resources import files
from typing import Any

from jinja2 import Environment
from matplotlib.axes import Axes

from ... import __version__
from ...boards.sweep.space import Space
from ...boards.sweep.study import Evaluated
from ..curve import inline_picture

_AGAINST = ("lut", "cycles", "ff", "dsp", "bram36", "uram", "dram_bytes")
"""Objectives against which accuracy is plotted, the most telling first."""


def render(
    space: Space, points: Sequence[Evaluated], front: Sequence[Evaluated], best: Sequence[dict[str, Any]]
) -> str:
    """HTML page of all points and the Pareto front; ``best`` has ``values``, ``objectives`` and ``commands`` of the
    front.
    """
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
        files(__package__).joinpath("report.html.j2").read_text()
    )
    feasible = [point for point in points if point.objectives]
    return template.render(
        version=__version__,
        space=space,
        points=points,
        best=best,
        refused=[point for point in points if point.reason],
        plots=_plots(space, feasible, front) if feasible else {},
    )


def _plots(space: Space, points: Sequence[Evaluated], front: Sequence[Evaluated]) -> dict[str, str]:
    pairs = _pairs(space)
    drawn = [inline_picture(partial(_scatter, space, points, front, pair)) for pair in pairs]
    return {f"{up} against {across}": picture for (across, up), picture in zip(pairs, drawn, strict=True)}


def _pairs(space: Space) -> list[tuple[str, str]]:
    """Objectives to plot, as pairs: horizontal axis, vertical axis."""
    if space.trains:
        return [(name, "accuracy") for name in _AGAINST if name in space.objectives]
    return [(space.objectives[0], name) for name in space.objectives[1:]]


def _scatter(
    space: Space, points: Sequence[Evaluated], front: Sequence[Evaluated], pair: tuple[str, str], axes: Axes
) -> None:
    across, up = (space.objectives.index(name) for name in pair)
    for group, style in ((points, {"color": "tab:grey", "alpha": 0.5}), (front, {"color": "tab:red"})):
        axes.scatter([point.objectives[across] for point in group], [point.objectives[up] for point in group], **style)
    # the Pareto front with respect to these two objectives only
    upward = 1 if pair[1] == "accuracy" else -1
    stairs: list[tuple[float, float]] = []
    for point in sorted(points, key=lambda point: (point.objectives[across], -upward * point.objectives[up])):
        if not stairs or upward * point.objectives[up] > upward * stairs[-1][1]:
            stairs.append((point.objectives[across], point.objectives[up]))
    axes.step(*zip(*stairs, strict=True), where="post", color="tab:red", linewidth=0.9)
    axes.set(xlabel=pair[0], ylabel=pair[1])
