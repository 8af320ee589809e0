"""`activation_function`: GELU, its approximation by a hyperbolic tangent, ReLU, SiLU or none, chosen word by word.

The functions are those of `functions`, on values of 16 fraction bits. A network's activations have fewer of them where
some are large: they are shifted before, and rounded behind. A squared ReLU is a ReLU here, and a product behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, get_args

from ...block import Field, Stream, Words, described
from ...fixed import Q8_16, Format, shifted
from ...memories.plan import MemoryShape
from ...transformer.blocks import ActivationKind
from ..forward import SHIFT
from ..functions import ACTIVATIONS, TABLES
from ..pwl_memory import FunctionMemory
from .lanewise import LanewiseSpec

KINDS = ("none", *get_args(ActivationKind))
"""Functions by their number in a word, which is that of an instruction of the streaming core."""
TABULATED = tuple(kind for kind in KINDS if kind in TABLES)
KIND = Format(3, 0, signed=False)


@dataclass(frozen=True, kw_only=True)
class ActivationFunctionSpec(LanewiseSpec):
    """Parameters and model of `activation_function`, see `LanewiseSpec`."""

    name: ClassVar[str] = "activation_function"
    summary: ClassVar[str] = "GELU, SiLU, ReLU or none of values in Q8.16 or shifted, a table and a DSP a lane"

    @cached_property
    def table(self) -> FunctionMemory:
        """Table that is subtracted from a ReLU, by kinds in the order of `TABULATED`."""
        return FunctionMemory(tuple(TABLES[kind] for kind in TABULATED))

    @property
    def latency(self) -> int:
        """Cycles from input to output: alignment, magnitude, table 5, difference, scale, rounding 3."""
        return 12

    def streams(self) -> dict[str, Stream]:
        """Streams: `i` takes values of 24 bits, a kind, and the fraction bits below 16 of inputs and outputs."""
        settings = (
            Field(
                "kind",
                KIND,
                doc="0 none, 1 GELU, 2 GELU by a hyperbolic tangent, 3 and 4 ReLU, 5 SiLU: the numbers of an "
                "instruction",
            ),
            Field("input_shift", SHIFT, doc="fraction bits that the values lack of 16"),
            Field("output_shift", SHIFT, doc="fraction bits that the results lack of 16"),
        )
        return described(
            self.ports((Field("value", Q8_16, self.lanes), *settings), Q8_16),
            {
                "i.value": "lane 0 in the lowest bits; `16 - i_input_shift` fraction bits",
                "o.value": "rounded half to even, `16 - i_output_shift` fraction bits",
                "o.clipped": "the value was saturated",
            },
            i="Values of ``16 - input_shift`` fraction bits, the number in `KINDS`; `tag` only where it has bits.",
            o="The function with ``16 - output_shift`` fraction bits, rounded half to even; where `clipped`, "
            "saturated.",
        )

    def run(self, inputs: dict[str, Words], words: int) -> dict[str, Words]:
        """Compute the functions word for word."""
        given = {name: column[:words] for name, column in inputs["i"].items()}
        aligned = given["value"] << given["input_shift"]
        exact = aligned.copy()
        for number, kind in enumerate(KINDS[1:], start=1):
            chosen = given["kind"][:, 0] == number
            exact[chosen] = ACTIVATIONS[kind.removesuffix("-squared")](aligned[chosen])
        rounded = shifted(exact, given["output_shift"])
        return self.saturated(given, rounded, Q8_16.minimum, Q8_16.maximum)

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        """Tables, one for two lanes."""
        return self.table.memories("activation table", self.lanes)

    def roms(self) -> dict[str, tuple[list[int], int]]:
        """Contents and width of the tables, of which two lanes share one."""
        return {"table": (self.table.contents, self.table.width)}
