"""Output path of a forward engine: from sums to outputs in the output memory."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring

from ....golden.nn.array import latency
from ....golden.nn.array.mapping import Mapping
from ...primitives.pipeline import delayed
from ..memories.activation_memory import ActivationBanks
from ..pooling import Pooling
from ..sequencer import Sequencer
from .array_access import OwnArray, SharedArray
from .sides import OneSide, TwoSides

_POOLING_PORTS = {"pooled_parts": "parts"}
"""Pooling ports by other names of `StageFunction`."""


@dataclass(frozen=True)
class OutputWrite:
    """Write of all columns' outputs to the activation memory: valid, column mask, first address, values."""

    write: Value
    mask: Value
    address: Value
    values: Value


@dataclass(frozen=True)
class StageOutput:
    """Outputs of the running stage.

    Parameters
    ----------
    write : OutputWrite
        Write of the outputs.
    begin : Value
        Pulse two cycles before a stage's first outputs.
    latency : int
        Cycles from a stage's only word to `begin`.
    """

    write: OutputWrite
    begin: Value
    latency: int


class OutputPath:
    """Pooling and output memory after the array, with pipelined control.

    Parameters
    ----------
    mapping : Mapping
        The network.
    access : OwnArray or SharedArray
        The array.
    sides : OneSide or TwoSides
        Perturbation signs of a pass.
    padded : bool
        Whether parameters of columns without an output channel are 0.
    kept : int
        First stage with readable outputs.
    """

    def __init__(
        self, mapping: Mapping, access: OwnArray | SharedArray, sides: OneSide | TwoSides, padded: bool, kept: int
    ) -> None:
        self.mapping, self.access, self.array, self.sides = mapping, access, access.array, sides
        self.kept, self.has_parts = kept, mapping.most_parts > 1
        # columns without an output channel have sums not 0, from offsets or from biases of parts
        self.masked = not padded or self.has_parts
        self.sum_latency = ActivationBanks.LATENCY + self.array.latency
        """Cycles from a word to its completed sum."""
        self.latency = self.sum_latency + mapping.pooling_latency - latency.POOLING
        """Cycles from a word to two cycles before its outputs."""

    def compute(self, m: Module, engine: wiring.Component, sequencer: Sequencer) -> StageOutput:
        """Add the path; returns its outputs."""
        mapping, port, sides = self.mapping, self.array.port, self.sides
        m.submodules.pooling = pooling = Pooling(mapping)
        m.submodules.memory = memory = sides.output_memory(self.kept)
        begin = sides.until_outputs(m, sequencer.begin, self.latency, "output_begin")
        # field by field, so that synthesis removes unused fields
        control = {
            name: delayed(m, sequencer.word.pool[name], self.sum_latency, f"pool_{name}", reset_less=True)
            for name in pooling.control.shape().members
        }
        if self.has_parts:
            self._part(m, control, sides.until_outputs(m, sequencer.cells, self.sum_latency, "cells", reset_less=True))
            m.d.comb += memory.position.eq(pooling.position)
        m.d.comb += [
            *(pooling.control[name].eq(value) for name, value in control.items()),
            pooling.relu.eq(sides.until_outputs(m, sequencer.relu, self.sum_latency, "relu", reset_less=True)),
            pooling.valid.eq(sides.own_sums(port.valid)),
            pooling.sums.eq(port.y),
            memory.begin.eq(begin),
            memory.first.eq(sides.until_outputs(m, sequencer.output, self.latency, "output_first", reset_less=True)),
            memory.write.eq(pooling.write),
            memory.values.eq(pooling.o),
            memory.enable.eq(engine.outputs.enable),
            memory.address.eq(engine.outputs.address),
            memory.column.eq(engine.outputs.column),
            engine.outputs.value.eq(memory.value),
        ]
        self._function(m, pooling, sequencer)
        sides.connect_outputs(m, engine, memory, sequencer, self.latency)
        m.d.sync += engine.clipped.eq(self._clipped(pooling))
        write = OutputWrite(pooling.write, pooling.mask, pooling.address, pooling.o.as_value())
        return StageOutput(write, begin, self.latency)

    def _function(self, m: Module, pooling: Pooling, sequencer: Sequencer) -> None:
        """Connect `StageFunction` to the pooling."""
        for name in sequencer.function.signature.members:
            value = self.sides.until_outputs(
                m, getattr(sequencer.function, name), self.sum_latency, name, reset_less=True
            )
            m.d.comb += getattr(pooling, _POOLING_PORTS.get(name, name)).eq(value)

    def _clipped(self, pooling: Pooling) -> Value:
        """Number of clipped sums, also of a component that shares the array."""
        clipped, port = self.array.clipped, self.array.port
        if self.masked:
            own = pooling.control.mask
            if self.mapping.has_merged_pixels:
                # both pixels, with outputs in the lower half of the columns
                own = own | (pooling.merged.replicate(len(own)) & (own << len(own) // 2))
            clipped = clipped & (own | self.access.foreign(self.sides.buffers.running))
        counts = port.valid & pooling.control.inside if self.mapping.has_padded_pools else port.valid
        return sum((bit & counts for bit in clipped), Value.cast(0))

    def _part(self, m: Module, control: dict[str, Value], cells: Value) -> None:
        """Control of further parts of a sum, from the preceding part's."""
        columns, rest = self.mapping.columns, self.array.parts.rest
        following = {name: Signal.like(value, name=f"next_{name}", reset_less=True) for name, value in control.items()}
        control |= {name: Mux(rest, following[name], value) for name, value in control.items()}
        channels = Cat(control["mask"], control["more"]) >> columns
        next_control = control | {
            "target": control["target"] + columns,
            "position": control["position"] + cells,
            "mask": channels[:columns],
            "more": channels[columns:],
        }
        m.d.sync += [following[name].eq(value) for name, value in next_control.items()]
