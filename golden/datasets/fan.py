"""Vibration spectra of a cooling fan: Damage1 and Damage2 of Skip2-LoRA (section 5.1).

Source: github.com/matutani/cooling-fan (Sunaga, Kondo, Matsutani, IEEE Micro 43(6) 66-73, 2023), its CSV files
collected in `cooling_fan.npz`: one array (235, 512) of float32 for each recording, each row a spectrum of 1 Hz bins
with values 0 to 0.99999, rows in time order. In the ``12cm_hmlo`` recordings the fan turns at 2,500, 2,000 and 1,500
rpm and then stands still, a quarter of the time each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from .dataset import Samples, Task
from .files import find
from .npz import read_arrays

STOP, NORMAL, DAMAGED = range(3)
CLASSES = 3
FEATURES = 256
"""Features: the lower 256 of the 512 bins. The paper uses 256 bins without naming them."""
_SILENT = ("silentA_1", "silentA_2", "silentB_1", "silentB_2")
_NOISY = ("noisy_1", "noisy_2")


def runs_of(seed: int) -> tuple[str, str, str]:
    """Recordings to pre-train, to tune and to test on.

    Each has 470 samples of a normal and a damaged fan, as in the paper. The paper pre-trains on silent recordings,
    tunes on one half of the noisy ones and tests on the other, without naming the halves: eight seeds cover all
    combinations.
    """
    tuned = seed % 2
    return _SILENT[seed // 2 % 4], _NOISY[tuned], _NOISY[1 - tuned]


def fan(damage: int, data_dir: Path | None, seed: int = 0) -> Task:
    """Task: pre-train in a silent room, tune and test beside a ventilation fan.

    `damage` is 1 for holes in a blade, 2 for a chipped blade. `data_dir` has cooling-fan/cooling_fan.npz or
    cooling_fan.npz. `seed` selects the recordings, see `runs_of`.
    """
    name = f"fan-damage{damage}"
    (path,) = find(name, data_dir, "cooling-fan", ["cooling_fan.npz"])
    runs = runs_of(seed)
    keys = {run: (f"12cm_hmlo_normal_{run}", f"12cm_hmlo_damage{damage}_{run}") for run in runs}
    arrays = read_arrays(path, [key for pair in keys.values() for key in pair])
    for key, spectra in arrays.items():
        if spectra.ndim != 2 or len(spectra) < 48 or spectra.shape[1] != 512 or spectra.dtype != np.float32:
            raise UserError(f"{path}: {key} is {spectra.dtype} {spectra.shape}, not float32 (235, 512)")
        if not np.isfinite(spectra).all():
            raise UserError(f"{path}: {key} has NaN or infinity")

    def samples(run: str) -> Samples:
        parts = [
            _labelled(arrays[key], kind, f"{path}: {key}")
            for key, kind in zip(keys[run], (NORMAL, DAMAGED), strict=True)
        ]
        return Samples(
            np.concatenate([part.inputs for part in parts]), np.concatenate([part.labels for part in parts])
        ).check(f"{path}: {run}", CLASSES)

    pretrain, tune, test = (samples(run) for run in runs)
    return Task(name, pretrain, tune, test)


def stop_begins(spectra: NDArray[Any], where: str = "recording") -> int:
    """First row of spectra (n, 512), in time order, with the fan at rest; `where` is the recording's name for messages.

    The sum of all 512 bins of a row decides. At the lowest speed it is 31 to 53 in the silent rooms and 56 to 72 beside
    the ventilation fan; at rest 9 to 12 and 28 to 39. The border is half way between both medians, and rest begins
    after the last row above it: at row 176 to 181 of 235, not always the 176.25 of a division by four. One or two rows
    of a recording, during the run-down, are ambiguous.
    """
    energy = spectra.sum(axis=1, dtype=np.float64)
    eighth = len(energy) // 8
    slow, rest = np.median(energy[-3 * eighth : -2 * eighth - 5]), np.median(energy[-eighth:])
    if not rest < 0.75 * slow:
        raise UserError(f"{where}: the fan does not come to rest in the last quarter")
    return int(np.flatnonzero(energy > (slow + rest) / 2)[-1]) + 1


def _labelled(spectra: NDArray[Any], kind: int, where: str) -> Samples:
    labels = np.full(len(spectra), kind, np.int64)
    labels[stop_begins(spectra, where) :] = STOP
    return Samples(np.ascontiguousarray(spectra[:, :FEATURES]), labels)
