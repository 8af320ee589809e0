"""Files of a fine-tuning: tuned tensors, and a plot."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..golden.errors import UserError
from ..golden.files import refuse_unwritable
from ..golden.models.checkpoint import refuse_existing, save_state
from .outputs import RUNS, new_run


def refuse_outputs(outputs: Collection[Path | None], plot: Path | None, force: bool) -> None:
    """Before the work, refuse outputs that could not be written after it.

    None in ``outputs`` stands for a file in the folder of a new run; ``force`` allows replacement. A `UserError` names
    a file that may not be replaced, is named twice or cannot be written, or a plot without a suffix of pictures.
    """
    named = [path for path in (*outputs, plot) if path]
    for index, path in enumerate(named):
        refuse_existing(path, force)
        if path.absolute() in [other.absolute() for other in named[:index]]:
            raise UserError(f"{path} is named for two outputs: choose another file for one of them")
    default = [RUNS / "tune-0001" / "file"] if outputs and None in outputs else []
    for path in (*named, *default):
        refuse_unwritable(path)
    if plot:
        from .curve import check

        check(plot)


def save_tuned(
    output: Path | None, name: str, tensors: Mapping[str, NDArray[np.generic]], metadata: Mapping[str, Any], force: bool
) -> Path:
    """Save tuned tensors, by default as ``NAME.safetensors`` in the folder of a new run; returns the path.

    ``metadata`` are settings, saved as text; ``force`` replaces `output`.
    """
    path = output or new_run("tune") / f"{name}.safetensors"
    save_state(path, tensors, {key: str(value) for key, value in metadata.items()}, force)
    return path


def spoilt(loss: float, classes: int, before: float, after: float, remedy: str) -> str | None:
    """Warning if fine-tuning left a network worse than guessing, else None.

    Integers saturate where floats overflow, so that a run ends with a finite loss even at too high a rate. ``loss`` is
    the mean held-out cross entropy; ``before`` and ``after`` are fractions of held-out samples right; ``remedy`` is
    advice, such as ``lower --rate``.
    """
    if loss <= log(classes):
        return None
    return (
        f"fine-tuning spoilt the network: {100 * before:.1f}% right before and {100 * after:.1f}% after, at a held-out "
        f"loss of {loss:.3g}, where guessing has {log(classes):.3g}: {remedy}"
    )
