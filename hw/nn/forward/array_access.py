"""Access of a forward engine to a private or a shared array of multipliers."""

from dataclasses import dataclass

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Member

from ....golden.nn.array.mapping import Mapping
from ...primitives.registers import replicas
from ..mac import MacArray
from ..sample_buffers import SampleBuffers


@dataclass(frozen=True)
class ArrayWord:
    """Word for the array.

    Parameters
    ----------
    operands : dict of str to Value
        Members of `ArrayPort` by name: `x`, `w` and the flags.
    halved : Value
        Sums are of half the lanes.
    bias : Value
        Biases of the sum whose first word came `MacArray.bias_cycles` earlier.
    """

    operands: dict[str, Value]
    halved: Value
    bias: Value


class OwnArray:
    """Private array, sized for the mapping; adds no `ports` to the engine."""

    def __init__(self, mapping: Mapping) -> None:
        terms = max(stage.sum_words for stage in mapping.stages) * mapping.lanes
        self.array = MacArray(
            mapping.lanes,
            mapping.columns,
            terms,
            mapping.most_lane_terms,
            parts=mapping.lane_parts,
            halves=mapping.has_halves,
        )
        self.ports: dict[str, Member] = {}

    def put(self, m: Module, engine: wiring.Component, word: ArrayWord, buffers: SampleBuffers) -> None:
        """Connect a word to the array, also after the end of its sample."""
        array = self.array
        if array.halves:
            m.d.comb += array.parts.halved.eq(word.halved)
        if array.lane_parts:
            m.d.comb += array.parts.rounds.eq(1)
        m.d.comb += [Value.cast(getattr(array.port, name)).eq(value) for name, value in word.operands.items()]
        m.d.comb += array.bias.eq(word.bias)

    def give(self, m: Module, engine: wiring.Component, running: Signal) -> None:
        """Connect sums to another component: none."""

    def foreign(self, running: Signal) -> Value | int:
        """Columns with sums of another component: none."""
        return 0


class SharedArray:
    """Array used by another component while no sample is computed.

    Parameters
    ----------
    array : MacArray
        May have more terms than the engine needs, sums within multipliers, or several words a cycle.

    Attributes
    ----------
    array : MacArray
    ports : dict of str to Member
        Ports added to the engine:

        shared : In, `ArrayPort`
            Access of the other component while no sample is computed; `valid` is for its sums only.
    """

    def __init__(self, array: MacArray) -> None:
        self.array = array
        self.ports: dict[str, Member] = {"shared": In(array.interface)}

    def put(self, m: Module, engine: wiring.Component, word: ArrayWord, buffers: SampleBuffers) -> None:
        """Connect a word to the array, or the other component's while no sample is computed."""
        array, running = self.array, buffers.running
        # replicated registers, as all operands are multiplexed
        widths = {"x": array.formats.x.width, "w": array.formats.w.width}
        of_column = replicas(array.columns, "running")
        m.d.sync += [register.eq(buffers.runs_next) for register in of_column]
        if array.halves:
            m.d.comb += array.parts.halved.eq(word.halved & running)
        if array.lane_parts:
            # sums within without rounding are the other component's
            m.d.comb += array.parts.rounds.eq(running)
        for name, value in word.operands.items():
            shared = Value.cast(getattr(engine.shared, name))
            into = Value.cast(getattr(array.port, name))
            width = widths.get(name, len(into))
            for number, first in enumerate(range(0, len(into), width)):
                own = slice(first, first + width)
                m.d.comb += into[own].eq(Mux(of_column[number % array.columns], value[own], shared[own]))
        for number, bias in enumerate(array.bias):
            given = Value.cast(word.bias).word_select(number, array.formats.w.width)
            m.d.comb += bias.eq(Mux(of_column[number], given, 0))
        if array.words_per_cycle > 1:
            m.d.comb += array.paired.eq(~running)

    def give(self, m: Module, engine: wiring.Component, running: Signal) -> None:
        """Connect the sums to the other component."""
        port, shared = self.array.port, engine.shared
        m.d.comb += [
            shared.operands.eq(port.operands),
            shared.valid.eq(port.valid & ~running),
            shared.y.eq(port.y),
            shared.completing.eq(port.completing),
            shared.complete.eq(port.complete),
            shared.sums.eq(port.sums),
        ]

    def foreign(self, running: Signal) -> Value | int:
        """Columns with sums of the other component: all while no sample is computed."""
        return (~running).replicate(self.array.columns)
