"""`activation_function`: GELU, its tanh approximation, SiLU, ReLU or none, selected for each word.

The functions take 16 fraction bits, see `functions`. Tensors with large values have fewer: their values are shifted
before the function and rounded after it. A squared ReLU is a ReLU here and a product in `elementwise`.
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
"""Functions by number, as in an instruction of the streaming core."""
TABULATED = tuple(kind for kind in KINDS if kind in TABLES)
KIND = Format(3, 0, signed=False)


@dataclass(frozen=True, kw_only=True)
class ActivationFunctionSpec(LanewiseSpec):
    name: ClassVar[str] = "activation_function"
    summary: ClassVar[str] = "GELU, SiLU, ReLU or none of values in Q8.16 or shifted, a table and a DSP a lane"

    @cached_property
    def table(self) -> FunctionMemory:
        """Tables of ReLU minus function, in the order of `TABULATED`; two lanes share one."""
        return FunctionMemory(tuple(TABLES[kind] for kind in TABULATED))

    @property
    def latency(self) -> int:
        """Cycles from input to output: alignment, magnitude, table 5, difference, scale, rounding 3."""
        return 12

    def streams(self) -> dict[str, Stream]:
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
        fields = {name: column[:words] for name, column in inputs["i"].items()}
        aligned = fields["value"] << fields["input_shift"]
        exact = aligned.copy()
        for number, kind in enumerate(KINDS[1:], start=1):
            chosen = fields["kind"][:, 0] == number
            exact[chosen] = ACTIVATIONS[kind.removesuffix("-squared")](aligned[chosen])
        rounded = shifted(exact, fields["output_shift"])
        return self.saturated(fields, rounded, Q8_16.minimum, Q8_16.maximum)

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        return self.table.memories("activation table", self.lanes)

    def roms(self) -> dict[str, tuple[list[int], int]]:
        return {"table": (self.table.contents, self.table.width)}
