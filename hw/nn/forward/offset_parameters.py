"""Parameters of a forward engine with offsets."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import Member, Out

from ....golden.nn.array import latency
from ....golden.nn.array.copies import copies, segments
from ....golden.nn.array.mapping import Mapping
from ...primitives.pipeline import delayed
from ...primitives.registers import replicas
from ...primitives.rounding import saturate
from ..interfaces import PARAMETER, Offsets
from ..memories.activation_memory import ActivationBanks
from ..sequencer import Sequencer
from .parameters import FrozenParameters, ParameterMemories, ParameterRead


class OffsetParameters:
    """Frozen parameters plus offsets, saturated to Q4.12.

    Lanes without weights are 0, without offsets. In words of two pixels both copies take the left pixel's offset.

    Parameters
    ----------
    mapping : Mapping
        With ``sides=2``.
    offsets : Offsets
        Interface of the offsets.

    Attributes
    ----------
    latency : int
        Cycles from address to parameters.
    padded : bool
        Whether parameters of columns without an output channel are 0; with offsets they are not.
    ports : dict of str to Member
        Ports added to the engine:

        offsets : Out, `Offsets`
            Offsets of the parameters.
    """

    latency = latency.PARAMETER_READ + latency.OFFSET
    padded = False

    def __init__(self, mapping: Mapping, offsets: Offsets) -> None:
        self.mapping, self.interface = mapping, offsets
        self.frozen, self.copies = FrozenParameters(mapping), copies(mapping)
        firsts = segments(mapping)
        self.segments = [sum(column >= first for first in firsts) - 1 for column in range(mapping.columns)]
        self.ports: dict[str, Member] = {"offsets": Out(offsets)}

    def store(self, m: Module, engine: wiring.Component, platform: object) -> ParameterMemories:
        """Add the memories, filled through the engine's port `load`."""
        return self.frozen.store(m, engine, platform)

    def read(
        self, m: Module, engine: wiring.Component, memories: ParameterMemories, read: ParameterRead
    ) -> tuple[Value, Value]:
        """Word of weights and group of biases, each `latency` cycles after its address."""
        weights, bias, offsets, sequencer = memories.weights, memories.biases, engine.offsets, read.sequencer
        used, copied = self._used(m, sequencer, read.residual), self._copied(m, sequencer)
        add_cycle = ActivationBanks.LATENCY - latency.OFFSET
        bias_add_cycle = add_cycle - latency.PARAMETER_READ + read.bias_cycles
        m.d.comb += [
            offsets.weight.eq(
                delayed(m, sequencer.word.weight, add_cycle - self.interface.latency, "offset", reset_less=True)
            ),
            offsets.side.eq(delayed(m, sequencer.side, add_cycle - 1, "side", reset_less=True)),
            offsets.bias.eq(bias.addr),
            offsets.bias_side.eq(delayed(m, sequencer.side, bias_add_cycle, "bias_side", reset_less=True)),
        ]
        word, of_parameter = [], self.interface.of_parameter
        for number, weight in enumerate(weights.word):
            lane, column = divmod(number, self.mapping.columns)
            offset: Value = offsets.numbers[of_parameter[number]]
            for kind, copy in enumerate(self.copies, start=1):
                if lane >= copy.lanes and column >= copy.columns:
                    original = number - copy.lanes * self.mapping.columns - copy.columns
                    offset = Mux(copied[column] == kind, offsets.numbers[of_parameter[original]], offset)
            value = self._sum(m, weight, offset, f"weight_sum{number}")
            word.append(Mux(used[self.segments[column]][lane], value, 0))
        bias_offsets = self._bias_offsets(m, sequencer, list(offsets.biases), bias_add_cycle)
        pairs = zip(bias.data, bias_offsets, strict=True)
        return Cat(word), Cat(self._sum(m, *pair, f"bias_sum{column}") for column, pair in enumerate(pairs))

    def replaced(self, word: Value, residual: Value, identity: Value) -> Value:
        """Word of weights, or the identity for a residual, whose weights are 0."""
        return word | Mux(residual, identity, 0)

    def _used(self, m: Module, sequencer: Sequencer, residual: Value) -> list[Value]:
        """Mask of lanes with weights by segment of columns; 0 for a residual."""
        mapping, lanes = self.mapping, len(sequencer.tail_lanes)
        tail = delayed(m, sequencer.tail, ActivationBanks.LATENCY - 1, "tail")
        used, tail_lanes = Signal(lanes, reset_less=True), Signal(lanes, reset_less=True)
        # a stage begins before the last words of the preceding stage are read
        with m.If(delayed(m, sequencer.begin, ActivationBanks.LATENCY - 1, "tail_begin")):
            m.d.sync += tail_lanes.eq(sequencer.tail_lanes)
        unused: Value = tail.replicate(lanes) & ~tail_lanes
        if mapping.has_residuals:
            unused |= residual.replicate(lanes)
        m.d.sync += used.eq(~unused)
        if not self.copies:
            return [used]
        return [used[first : first + mapping.lanes] for first in range(0, lanes, mapping.lanes)]

    def _copied(self, m: Module, sequencer: Sequencer) -> list[Signal]:
        """Registers of `AlternatingSequencer.copy`, one a column."""
        if not self.copies:
            return []
        registers = replicas(self.mapping.columns, "copied", sequencer.copy.shape())
        with m.If(delayed(m, sequencer.begin, ActivationBanks.LATENCY - 1, "copy_begin")):
            m.d.sync += [register.eq(sequencer.copy) for register in registers]
        return registers

    def _bias_offsets(self, m: Module, sequencer: Sequencer, offsets: list[Value], cycles: int) -> list[Value]:
        """Offset of each column's bias, a copy's from its original, `cycles` after the first word of the sum."""
        found = list(offsets)
        if self.copies:
            # a stage begins two cycles before its first word
            kind_read = delayed(m, sequencer.copy, cycles + 1, "bias_copy", reset_less=True)
            for kind, copy in enumerate(self.copies, start=1):
                for column in range(copy.columns, len(offsets)):
                    found[column] = Mux(kind_read == kind, offsets[column - copy.columns], found[column])
        return found

    @staticmethod
    def _sum(m: Module, parameter: Value, offset: Value, name: str) -> Value:
        """Saturated sum of parameter and offset, a cycle later."""
        total = Signal(signed(PARAMETER.width + 1), name=name, reset_less=True)
        m.d.sync += total.eq(parameter + offset)
        return saturate(total, PARAMETER.width)
