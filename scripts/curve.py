"""Plots of a fine-tuning and of federations, and pictures inside reports."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..golden.errors import UserError
from ..golden.files import whole
from ..golden.train.adapters.tune import AdapterResult
from ..golden.train.zo.finetune import ZoResult

_KINDS = (".png", ".svg", ".pdf")


def check(path: Path) -> None:
    """Refuse a plot file name without a suffix for pictures."""
    if path.suffix not in _KINDS:
        raise UserError(f"{path}: a plot ends in {', '.join(_KINDS)}")


def draw(result: AdapterResult, described: dict[str, Any], path: Path) -> None:
    """Plot loss and held-out accuracy by epoch."""
    figure, (loss, accuracy) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    epochs = range(1, len(result.epochs) + 1)
    loss.plot(epochs, [epoch.loss for epoch in result.epochs], color="#b0413e", label="samples that are learnt from")
    if validation := [epoch.validation[0] for epoch in result.epochs if epoch.validation]:
        loss.plot(epochs, validation, color="#b0413e", linestyle="--", label="validation")
        loss.legend()
    loss.set(xlabel="epoch", ylabel="mean cross entropy", ylim=(0, None))
    accuracy.plot([100 * fraction for fraction in result.curve], color="#2a6f97")
    accuracy.set(xlabel="epoch", ylabel="held-out samples right (%)")
    for axes in (loss, accuracy):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _save(figure, "{method} on {data} ({drift}), {network}, {engine}".format(**described), path)


def draw_steps(result: ZoResult, described: dict[str, Any], path: Path) -> None:
    """Plot loss and held-out accuracy by step."""
    figure, (loss, accuracy) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    loss.plot(range(1, len(result.losses) + 1), result.losses, color="#b0413e", alpha=0.25)
    window = min(50, len(result.losses))
    means = np.convolve(result.losses, np.full(window, 1 / window), mode="valid")
    loss.plot(range(window, len(result.losses) + 1), means, color="#b0413e", label=f"mean of {window} steps")
    loss.set(xlabel="step", ylabel="cross entropy of a step's samples", ylim=(0, None))
    loss.legend()
    steps, right = zip(*result.curve, strict=True)
    accuracy.plot(steps, [100 * fraction for fraction in right], color="#2a6f97")
    accuracy.set(xlabel="step", ylabel="held-out samples right (%)")
    _save(figure, "{method} ({generator}) on {data} ({drift}), {network}, {engine}".format(**described), path)


def draw_curves(curves: Mapping[str, Mapping[str, Sequence[float]]], title: str, path: Path) -> None:
    """Plot mean losses over windows of steps: a panel for each task, a curve for each variant."""
    figure, axes = plt.subplots(1, len(curves), figsize=(6.5 * len(curves), 4.2), layout="constrained", squeeze=False)
    for (panel, ways), axis in zip(curves.items(), axes[0], strict=True):
        axis.set_prop_cycle(color=matplotlib.color_sequences["tab20" if len(ways) > 10 else "tab10"])
        for name, points in ways.items():
            axis.plot(range(1, len(points) + 1), points, label=name)
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set(xlabel="window of steps", ylabel="cross entropy, mean over seeds", title=panel)
        axis.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    _save(figure, title, path)


def draw_federations(
    curves: Mapping[str, Sequence[tuple[float, float, float]]], described: dict[str, Any], path: Path
) -> None:
    """Plot held-out loss and accuracy by forward operations.

    ``curves`` holds, by federation, points of (10^9 operations, cross entropy, percent correct).
    """
    figure, (loss, accuracy) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for name, points in curves.items():
        work, losses, right = zip(*points, strict=True)
        loss.plot(work, losses, label=name)
        accuracy.plot(work, right)
    loss.set(xlabel="forward operations of all clients (10^9)", ylabel="held-out cross entropy", ylim=(0, None))
    accuracy.set(xlabel="forward operations of all clients (10^9)", ylabel="held-out samples right (%)")
    loss.legend()
    _save(figure, "{network} on {data} ({drift}), {sampled} of {clients} clients a round".format(**described), path)


def inline_picture(draw: Callable[[Axes], None], size: tuple[float, float] = (6.4, 3.6)) -> str:
    """A plot as PNG in base64, for a page with inline pictures."""
    figure, axes = plt.subplots(figsize=size, layout="constrained")
    draw(axes)
    axes.grid(alpha=0.3)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    plt.close(figure)
    return base64.b64encode(picture.getvalue()).decode()


def _save(figure: Figure, title: str, path: Path) -> None:
    for axes in figure.axes:
        axes.grid(alpha=0.3)
    figure.suptitle(title, fontsize=10)
    with whole(path) as made:
        figure.savefig(made, dpi=150)
    plt.close(figure)
