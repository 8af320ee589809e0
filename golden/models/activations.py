"""Activations of a network: text, floats, integers, import and export.

A new activation is a class listed in `ACTIVATIONS`. Unless it is a mere clip, the array computes it with a unit: cycles
and DSPs in `golden.nn.array.activation_units`, RTL in `hw.nn.activation_units`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from ..fixed import Q8_16, Integers, divided, narrow

if TYPE_CHECKING:  # PyTorch takes seconds to import, and a spec needs none
    from numpy.typing import NDArray
    from torch import Tensor


class ActivationError(ValueError):
    """Activation without hardware; the message ends a sentence about the layer or operator."""


Made = Callable[[Callable[[str], Any]], "Nonlinearity"]
"""Function from an operator's arguments, a number or None by name, to an activation."""


class OnnxWriter(Protocol):
    """Writer of an ONNX file's nodes and tensors; returns their names, made unique."""

    def node(self, kind: str, inputs: Sequence[str], output: str, **given: Any) -> str: ...

    def tensor(self, name: str, values: NDArray[Any]) -> str: ...


class Nonlinearity(ABC):
    """Elementwise function behind a layer; instances are frozen, and equal for equal functions.

    Attributes
    ----------
    name : str
        Name for messages.
    kinds, words : str
        Lists for messages: kinds, and examples of the text form.
    aten, onnx : mapping of str to function
        Imported operators of ATen (overload ``default``) and of ONNX.
    rises : bool
        Whether it is monotone, so that it commutes with a max-pool.
    steepest : float
        Lipschitz constant, the gain of input errors.
    """

    name: ClassVar[str]
    kinds: ClassVar[str]
    words: ClassVar[str]
    aten: ClassVar[Mapping[str, Made]]
    onnx: ClassVar[Mapping[str, Made]]
    rises: ClassVar[bool] = True
    steepest: ClassVar[float] = 1.0

    @classmethod
    @abstractmethod
    def parsed(cls, word: str) -> Nonlinearity | None:
        """Activation of a word; None for another kind of layer."""

    @property
    @abstractmethod
    def word(self) -> str:
        """Text form, as `parsed` reads it."""

    @property
    def shown(self) -> str:
        """Name with its numbers, for tables."""
        return self.name

    @property
    def refusal(self) -> str:
        """Why the numbers have no hardware, or an empty string."""
        return ""

    def behind(self, before: Nonlinearity) -> Nonlinearity:
        """Single activation that computes `before`, then this one.

        Raises
        ------
        ActivationError
            If no single activation computes both.
        """
        raise ActivationError(f"a {self.name} behind another activation has no hardware")

    def in_range(self) -> Nonlinearity:
        """The same function on Q8.16 values, without limits that lie outside Q8.16."""
        return self

    @property
    @abstractmethod
    def operations(self) -> int:
        """Number of float operations per value."""

    @property
    @abstractmethod
    def roundings(self) -> int:
        """Largest error of `integers` for an exact input, in half last places."""

    @property
    def float_roundings(self) -> int:
        """Largest relative error of `floats` with exact constants, in roundings to float32."""
        return 0

    @abstractmethod
    def floats(self, x: Tensor) -> Tensor:
        """PyTorch reference."""

    @abstractmethod
    def integers(self, values: Integers) -> Integers:
        """Integer model, Q8.16 to Q8.16."""

    def constants_error(self, x: Tensor) -> Tensor:
        """Largest error at each input from rounded constants: that of `integers` plus that of float32 `floats`."""
        return x.new_zeros(x.shape)

    @abstractmethod
    def write_onnx(self, writer: OnnxWriter, sources: Sequence[str], number: int) -> str:
        """Write layer `number`, which reads one tensor; return the output's name."""

    @property
    def unit(self) -> str:
        """Kind of the array's unit for this activation; empty for a clip."""
        return ""

    @property
    def constant(self) -> int:
        """Parameter of the unit, Q0.16 for a slope."""
        return 0

    @property
    def rectified(self) -> bool:
        """Whether the array clips at 0."""
        return False

    @property
    def largest(self) -> int | None:
        """Upper limit of the array's clip, Q8.16."""
        return None


NUMBER = r"\d+(?:\.\d+)?(?:e-?\d+)?"
SLOPE_FRACTION = 16
"""Fraction bits of a leaky ReLU's slope in integers."""
_BEYOND = 128.0
"""End of Q8.16: larger limits have no effect."""


def _text(value: float) -> str:
    """Shortest text that is read back as the same number."""
    return f"{value:g}" if float(f"{value:g}") == value else repr(value)


def _error(constant: float, rounded: float) -> float:
    """Sum of a constant's errors: rounded for integers, and rounded to float32."""
    return abs(rounded - constant) + abs(float(np.float32(constant)) - constant)


def _decimal(single: Any) -> Any:
    """Shortest decimal number that rounds to the same float32; None for None."""
    return None if single is None else float(str(np.float32(single)))


def _clip(least: str, most: str) -> Made:
    """Importer of a clip; `least` and `most` are the names of its arguments."""

    def made(number: Callable[[str], Any]) -> Relu:
        ends = number(least), number(most)
        if ends[0] != 0:
            raise ActivationError(f"clips from {ends[0]} to {ends[1]}, not from 0")
        return Relu(None if ends[1] is None else float(ends[1]))

    return made


def _threshold(number: Callable[[str], Any]) -> Relu:
    threshold, value = number("threshold"), number("value")
    if not threshold == value == 0:
        raise ActivationError(f"replaces what is below {threshold} by {value}, not 0 by 0")
    return Relu()


@dataclass(frozen=True)
class Relu(Nonlinearity):
    """ReLU with an optional limit and slope; the integer product with the slope is rounded half to even.

    Parameters
    ----------
    limit : float, optional
        Largest output, 6 for ReLU6.
    slope : float
        Factor of negative values, 0 to less than 1; above 0 for a leaky ReLU.
    """

    name = "ReLU"
    kinds = "ReLU, ReLU6, leaky ReLU"
    words = "relu, relu6, leaky0.1"
    aten: ClassVar[Mapping[str, Made]] = {
        "relu": lambda number: Relu(),
        "relu6": lambda number: Relu(6.0),
        "hardtanh": _clip("min_val", "max_val"),
        **dict.fromkeys(("clamp", "clamp_min", "clip"), _clip("min", "max")),
        "threshold": _threshold,
        "leaky_relu": lambda number: Relu(slope=float(number("negative_slope"))),
    }
    onnx: ClassVar[Mapping[str, Made]] = {
        "Relu": lambda number: Relu(),
        "LeakyRelu": lambda number: Relu(slope=_decimal(number("alpha"))),
        "Clip": lambda number: _clip("min", "max")(lambda name: _decimal(number(name))),
    }

    limit: float | None = None
    slope: float = 0.0

    @classmethod
    def parsed(cls, word: str) -> Relu | None:
        if found := re.fullmatch(rf"relu({NUMBER})?", word):
            return cls(float(found[1]) if found[1] else None)
        if found := re.fullmatch(rf"leaky({NUMBER})(?:to({NUMBER}))?", word):
            return cls(float(found[2]) if found[2] else None, float(found[1]))
        return None

    @property
    def word(self) -> str:
        limit = "" if self.limit is None else _text(self.limit)
        if not self.slope:
            return f"relu{limit}"
        return f"leaky{_text(self.slope)}" + (f"to{limit}" if limit else "")

    @property
    def shown(self) -> str:
        return f"{f'leaky {self.slope:g} ' if self.slope else ''}ReLU{'' if self.limit is None else f'{self.limit:g}'}"

    @property
    def refusal(self) -> str:
        if self.limit is not None and not (isfinite(self.limit) and self.limit > 0):
            return f"a limit is above 0, not {self.limit}"
        if self.slope and not (isfinite(self.slope) and 0 < self.constant < 1 << SLOPE_FRACTION):
            return f"a slope is 0 or 2**-{SLOPE_FRACTION} to less than 1, not {self.slope}"
        return ""

    def behind(self, before: Nonlinearity) -> Nonlinearity:
        if not isinstance(before, Relu):
            return super().behind(before)
        if self.slope and before.slope:
            raise ActivationError("a leaky ReLU behind another one has no hardware; multiply their slopes")
        limits = [one.limit for one in (self, before) if one.limit is not None]
        return Relu(min(limits, default=None), min(self.slope, before.slope))

    def in_range(self) -> Relu:
        return replace(self, limit=None) if self.limit is not None and self.limit >= _BEYOND else self

    @property
    def operations(self) -> int:
        return 1 + (self.limit is not None) + (self.slope > 0)

    @property
    def roundings(self) -> int:
        return int(self.slope > 0)

    @property
    def float_roundings(self) -> int:
        return int(self.slope > 0)

    @property
    def unit(self) -> str:
        return "leaky" if self.slope else ""

    @property
    def constant(self) -> int:
        return round(self.slope * (1 << SLOPE_FRACTION))

    @property
    def rectified(self) -> bool:
        return not self.slope

    @property
    def largest(self) -> int | None:
        return None if self.limit is None else int(Q8_16.from_float(self.limit))

    def floats(self, x: Tensor) -> Tensor:
        from torch.nn import functional

        if not self.slope:
            return x.relu() if self.limit is None else functional.hardtanh(x, 0, self.limit)
        found = functional.leaky_relu(x, self.slope)
        return found if self.limit is None else found.clamp(max=self.limit)

    def integers(self, values: Integers) -> Integers:
        limit = Q8_16.maximum if self.largest is None else self.largest
        if not self.slope:
            return np.clip(values, 0, limit)
        below = narrow(np.minimum(values, 0) * self.constant, Q8_16.fraction + SLOPE_FRACTION, Q8_16)
        return np.where(values < 0, below, np.minimum(values, limit))

    def constants_error(self, x: Tensor) -> Tensor:
        slope = _error(self.slope, self.constant / (1 << SLOPE_FRACTION))
        limit = 0.0
        if self.limit is not None and self.largest is not None:
            limit = _error(self.limit, self.largest / (1 << Q8_16.fraction))
        return slope * (-x).relu() + limit * (x > 0)

    def write_onnx(self, writer: OnnxWriter, sources: Sequence[str], number: int) -> str:
        (source,) = sources
        output, limit, least = f"layer_{number}", f"limit_{number}", ""
        if self.slope:
            source = writer.node("LeakyRelu", [source], output, alpha=self.slope)
        if self.limit is None:
            return source if self.slope else writer.node("Relu", [source], output)
        if not self.slope:
            least = writer.tensor(f"{limit}_least", np.zeros((), np.float32))
        most = writer.tensor(limit, np.array(self.limit, np.float32))
        return writer.node("Clip", [source, least, most], f"{output}_clipped")


GATE_OFFSET, GATE_DIVISOR = 3 << Q8_16.fraction, 6
"""Summand in Q8.16 and divisor of the gate of a hard-swish."""


@dataclass(frozen=True)
class HardSwish(Nonlinearity):
    """Hard-swish of MobileNetV3 (section 5.2): x * relu6(x + 3) / 6.

    The integer gate, relu6(x + 3) / 6, is rounded half to even to 16 fraction bits, and the product of x and gate to
    Q8.16: an error of at most two last places.
    """

    name = kinds = "hard-swish"
    words = word = "hswish"
    aten: ClassVar[Mapping[str, Made]] = {"hardswish": lambda number: HardSwish()}
    onnx: ClassVar[Mapping[str, Made]] = {"HardSwish": lambda number: HardSwish()}
    rises = False
    steepest = 1.5
    operations = 5
    # three are from the gate, which is inexact only for |x| < 3, and one from the product
    roundings = 4
    float_roundings = 4
    unit = "hard_swish"

    @classmethod
    def parsed(cls, word: str) -> HardSwish | None:
        return cls() if word == cls.words else None

    def floats(self, x: Tensor) -> Tensor:
        from torch.nn import functional

        return functional.hardswish(x)

    def integers(self, values: Integers) -> Integers:
        gate = divided(np.clip(values + GATE_OFFSET, 0, GATE_DIVISOR << Q8_16.fraction), GATE_DIVISOR)
        return narrow(values * gate, 2 * Q8_16.fraction, Q8_16)

    def write_onnx(self, writer: OnnxWriter, sources: Sequence[str], number: int) -> str:
        return writer.node("HardSwish", sources, f"layer_{number}")


ACTIVATIONS: tuple[type[Nonlinearity], ...] = (Relu, HardSwish)


def activation_from(word: str) -> Nonlinearity | None:
    """Activation of a word in a network's text; None for any other word."""
    return next((found for kind in ACTIVATIONS if (found := kind.parsed(word)) is not None), None)
