"""Files of a fine-tuning: what was tuned, and a plot."""

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
    """Refuse outputs that could not be written after the work.

    Parameters
    ----------
    outputs : collection of (Path or None)
        Files; None for the one in the folder of a new run.
    plot : Path, optional
    force : bool
        Replace them.

    Raises
    ------
    UserError
        Naming a file that is there and may not be replaced, one that is named twice, one that cannot be written, see
        `refuse_unwritable`, or a plot whose name ends in no known kind of picture.
    """
    named = [path for path in (*outputs, plot) if path]
    for at, path in enumerate(named):
        refuse_existing(path, force)
        if path.absolute() in [other.absolute() for other in named[:at]]:
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
    """Save what was tuned, by default in the folder of a new run; return the file's path.

    Parameters
    ----------
    output : Path or None
        File that the user named.
    name : str
        Name of the file in the run's folder, without suffix.
    tensors : mapping of str to array
    metadata : mapping
        Settings, which are saved in the file as text.
    force : bool
        Replace `output`.
    """
    path = output or new_run("tune") / f"{name}.safetensors"
    save_state(path, tensors, {key: str(value) for key, value in metadata.items()}, force)
    return path


def spoilt(loss: float, classes: int, before: float, after: float, remedy: str) -> str | None:
    """Warning of a run that left a network with fewer samples right, where it is worse than guessing, else None.

    Integers saturate where floats overflow: a run at too high a rate comes to its end, with a loss that is finite.

    Parameters
    ----------
    loss : float
        Mean cross entropy of the held-out samples.
    classes : int
    before, after : float
        Fractions of held-out samples right.
    remedy : str
        What to do: ``lower --rate``.
    """
    if loss <= log(classes):
        return None
    return (
        f"fine-tuning spoilt the network: {100 * before:.1f}% right before and {100 * after:.1f}% after, at a held-out "
        f"loss of {loss:.3g}, where guessing has {log(classes):.3g}: {remedy}"
    )
