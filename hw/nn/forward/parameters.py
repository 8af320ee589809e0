"""Loaded parameters of a forward engine: weights by the word, biases by the group."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import Member
from amaranth.utils import exact_log2

from ....golden.nn.array import latency
from ....golden.nn.array.mapping import Mapping
from ....golden.nn.array.memories import bias_memory, weight_memories
from ...primitives.ram import ram
from ..interfaces import BEAT_BITS, PARAMETER
from ..memories.weight_memory import WeightMemory
from ..sequencer import Sequencer


@dataclass(frozen=True)
class ParameterMemories:
    """Memories of the parameters, addressed by the operand issue; a row of biases is a group."""

    weights: WeightMemory
    biases: memory.ReadPort


@dataclass(frozen=True)
class ParameterRead:
    """Context of parameter addresses.

    Parameters
    ----------
    sequencer : Sequencer
        Source of the addresses.
    residual : Value
        Weights are the identity, a cycle before the word is at the array.
    bias_cycles : int
        Cycles at the array from a sum's first word to its biases.
    """

    sequencer: Sequencer
    residual: Value
    bias_cycles: int


class FrozenParameters:
    """Weight and bias memory; adds no `ports` to the engine.

    Attributes
    ----------
    latency : int
        Cycles from address to parameters.
    padded : bool
        Parameters of lanes without an input and of columns without an output channel are 0.
    """

    latency = latency.PARAMETER_READ
    padded = True

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        self.ports: dict[str, Member] = {}

    def store(self, m: Module, engine: wiring.Component, platform: object) -> ParameterMemories:
        """Add the memories, filled through the engine's port `load`."""
        mapping = self.mapping
        m.submodules.weights = weights = WeightMemory(weight_memories(mapping), mapping.lanes, mapping.columns)
        m.submodules.biases = biases = ram(platform, bias_memory(mapping), data.ArrayLayout(PARAMETER, mapping.columns))
        store = biases.write_port()
        self._load(m, engine, weights, store)
        return ParameterMemories(weights, biases.read_port())

    def read(
        self, m: Module, engine: wiring.Component, memories: ParameterMemories, read: ParameterRead
    ) -> tuple[Value, Value]:
        """Word of weights and group of biases, each `latency` cycles after its address."""
        return memories.weights.word.as_value(), memories.biases.data.as_value()

    def replaced(self, word: Value, residual: Value, identity: Value) -> Value:
        """Word of weights, or the identity for a residual."""
        return Mux(residual, identity, word)

    def _load(self, m: Module, engine: wiring.Component, weights: WeightMemory, store: memory.WritePort) -> None:
        """Fill the memories by the beat, weights, then biases, while activations are cleared."""
        mapping, load, clear = self.mapping, engine.load, engine.clear
        beats = mapping.weight_words * mapping.word_beats
        bias_beats = mapping.groups * mapping.column_beats
        index, of_biases, end = Signal(range(max(beats, bias_beats))), Signal(), Signal()
        taken = Signal()
        stores, group = taken & of_biases, load.payload
        if mapping.column_beats > 1:
            stores, group = self._group(m, stores, index, load.payload)
        m.d.comb += [
            end.eq(index == Mux(of_biases, bias_beats - 1, beats - 1)),
            # the last beat waits until activations are clear
            load.ready.eq(~(of_biases & end & clear.active)),
            taken.eq(load.valid & load.ready),
            clear.start.eq(taken & ~of_biases & (index == 0)),
            engine.loaded.eq(taken & of_biases & end),
            weights.write.eq(taken & ~of_biases),
            weights.index.eq(index),
            weights.beats.eq(load.payload),
            store.en.eq(stores),
            store.addr.eq(index[exact_log2(mapping.column_beats) :]),
            store.data.eq(group[: len(Value.cast(store.data))]),
        ]
        with m.If(taken):
            m.d.sync += [index.eq(Mux(end, 0, index + 1)), of_biases.eq(of_biases ^ end)]

    def _group(self, m: Module, taken: Value, index: Signal, beat: Value) -> tuple[Value, Value]:
        """Flag of a group's last beat, and the group: earlier beats wait in registers."""
        beats = self.mapping.column_beats
        place = index[: exact_log2(beats)]
        waiting = [Signal(BEAT_BITS, name=f"waiting_biases{number}", reset_less=True) for number in range(beats - 1)]
        for number, register in enumerate(waiting):
            with m.If(taken & (place == number)):
                m.d.sync += register.eq(beat)
        return taken & place.all(), Cat(*waiting, beat)
