"""Access of a forward engine to the array of multipliers: to one of its own, or to one that it shares."""

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
    """A word on its way to the array.

    Parameters
    ----------
    operands : dict of str to Value
        Members of `ArrayPort` by name: `x`, `w` and the flags.
    halved : Value
        The word is of sums of half the lanes.
    bias : Value
        Biases for the array, of a sum whose first word came `MacArray.bias_cycles` earlier.
    """

    operands: dict[str, Value]
    halved: Value
    bias: Value


class OwnArray:
    """An array for the engine alone, for no more than it needs.

    Parameters
    ----------
    mapping : Mapping
        The network.

    Attributes
    ----------
    array : MacArray
    ports : dict of str to Member
        Ports that the engine has for it: none.
    """

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
        """Put a word into the array. It may be the last one of a sample that runs no more."""
        array = self.array
        if array.halves:
            m.d.comb += array.parts.halved.eq(word.halved)
        if array.lane_parts:
            m.d.comb += array.parts.rounds.eq(1)
        m.d.comb += [Value.cast(getattr(array.port, name)).eq(value) for name, value in word.operands.items()]
        m.d.comb += array.bias.eq(word.bias)

    def give(self, m: Module, engine: wiring.Component, running: Signal) -> None:
        """Give sums to another component: there is none."""

    def foreign(self, running: Signal) -> Value | int:
        """Tell the columns whose sums are another component's: none."""
        return 0


class SharedArray:
    """An array that another component uses while no sample is computed.

    Parameters
    ----------
    array : MacArray
        The array: it may have more terms than the engine needs, sums within multipliers, or several words a cycle.

    Attributes
    ----------
    array : MacArray
    ports : dict of str to Member
        Ports that the engine has for it:

        shared : In, `ArrayPort`
            The array for the other component, while no sample is computed: its sums' `valid` comes only then.
    """

    def __init__(self, array: MacArray) -> None:
        self.array = array
        self.ports: dict[str, Member] = {"shared": In(array.interface)}

    def put(self, m: Module, engine: wiring.Component, word: ArrayWord, buffers: SampleBuffers) -> None:
        """Put a word into the array, the other component's where no sample is computed."""
        array, running = self.array, buffers.running
        # registers for some of the numbers each, as all operands are chosen
        widths = {"x": array.formats.x.width, "w": array.formats.w.width}
        of_column = replicas(array.columns, "running")
        m.d.sync += [register.eq(buffers.runs_next) for register in of_column]
        if array.halves:
            m.d.comb += array.parts.halved.eq(word.halved & running)
        if array.lane_parts:
            # other sums within are those of the other component
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
        """Give the sums to the other component."""
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
        """Tell the columns whose sums are the other component's: all, while no sample is computed."""
        return (~running).replicate(self.array.columns)
