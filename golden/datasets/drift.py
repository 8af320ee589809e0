"""Drift: changes of images between pre-training and tuning."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from ..errors import UserError
from .dataset import Inputs, Samples, Task

DRIFTS = ("none", "rotate:DEGREES", "camera")
_AT_ONCE = 1024
"""Images processed at a time, to keep float64 copies small."""


@dataclass(frozen=True)
class Drift:
    """Change of images: "none", "rotate" by `degrees`, counter-clockwise, or "camera"."""

    kind: str
    degrees: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Drift:
        """Drift of a text: ``none``, ``rotate:90`` or ``camera``.

        Raises `UserError` if the text has another form.
        """
        kind, colon, number = text.partition(":")
        if kind in ("none", "camera") and not colon:
            return cls(kind)
        try:
            degrees = float(number)
        except ValueError:
            degrees = float("nan")
        if kind == "rotate" and isfinite(degrees):
            return cls(kind, degrees)
        raise UserError(f"there is no drift {text!r}; there are: {', '.join(DRIFTS)}, as in rotate:90")

    def apply(self, task: Task, seed: int) -> Task:
        """Task with drifted tuning and test samples; `seed` is for the camera's noise.

        Raises `UserError` if the samples are not images.
        """
        if self.kind == "none":
            return task
        rng = np.random.default_rng((seed, 1))  # a stream other than the shuffle's
        return replace(
            task, tune=self._changed(task.tune, task.name, rng), test=self._changed(task.test, task.name, rng)
        )

    def _changed(self, samples: Samples, name: str, rng: np.random.Generator) -> Samples:
        if len(samples.shape) != 3:
            raise UserError(f"the drift {self.kind!r} is for images; {name} has samples of shape {samples.shape}")
        if self.kind == "rotate":
            return Samples(rotate(samples.inputs, self.degrees), samples.labels)
        if samples.inputs.dtype != np.uint8:
            raise UserError(f"the drift 'camera' is for uint8 pixels; {name} has {samples.inputs.dtype}")
        return Samples(camera(samples.inputs, rng), samples.labels)


def rotate(images: Inputs, degrees: float) -> Inputs:
    """Images, (n, channels, height, width), rotated about their centre, counter-clockwise; bilinear, zeros outside.

    Multiples of 90 degrees move the pixels of square images exactly. Bytes are rounded to nearest, float32 is not
    rounded.
    """
    turned = np.empty_like(images)
    for start in range(0, len(images), _AT_ONCE):
        part = images[start : start + _AT_ONCE].astype(np.float64)
        values = ndimage.rotate(part, degrees % 360, axes=(3, 2), reshape=False, order=1, mode="constant", cval=0.0)
        turned[start : start + _AT_ONCE] = np.clip(np.rint(values), 0, 255) if images.dtype == np.uint8 else values
    return turned


def camera(images: Inputs, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Images, (n, channels, height, width), of a displaced camera.

    Shifted right by one pixel, 0.8 of the light, Gaussian noise of 0.05.
    """
    changed = np.empty(images.shape, np.uint8)
    for start in range(0, len(images), _AT_ONCE):
        part = images[start : start + _AT_ONCE] / 255.0
        moved = np.zeros_like(part)
        moved[..., 1:] = part[..., :-1]
        noisy = 0.8 * moved + rng.normal(0, 0.05, moved.shape)
        changed[start : start + _AT_ONCE] = np.rint(np.clip(noisy, 0, 1) * 255)
    return changed
