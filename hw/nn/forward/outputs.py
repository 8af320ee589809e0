"""Output path of a forward engine: sums become a stage's outputs, which go into the output memory."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring

from ....golden.nn.array import latency
from ....golden.nn.array.mapping import Mapping
from ...primitives.pipeline import delayed
from ..memories.activation_memory import ActivationMemory
from ..pooling import Pooling
from ..sequencer import Sequencer
from .array_access import OwnArray, SharedArray
from .sides import OneSide, TwoSides

_POOLING_PORTS = {"pooled_parts": "parts"}
"""Ports of the pooling that have another name than the member of `StageFunction`."""


@dataclass(frozen=True)
class OutputWrite:
    """A write of outputs of all columns to the activation memory.

    Parameters
    ----------
    write : Value
        There are outputs.
    mask, address, values : Value
        Columns that have one, address of the first, all of them.
    """

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
        As they are made.
    begin : Value
        A stage's outputs begin: two cycles before its first ones.
    latency : int
        Cycles from a word to `begin`, if it was a stage's first and last one.
    """

    write: OutputWrite
    begin: Value
    latency: int


class OutputPath:
    """Pooling and output memory behind the array, and the control that travels beside the words.

    Parameters
    ----------
    mapping : Mapping
        The network.
    access : OwnArray or SharedArray
        The array.
    sides : OneSide or TwoSides
        Sides of a pass.
    padded : bool
        Whether parameters of columns without an output channel are 0.
    kept : int
        Number of the first stage whose outputs are kept to be read.
    """

    def __init__(
        self, mapping: Mapping, access: OwnArray | SharedArray, sides: OneSide | TwoSides, padded: bool, kept: int
    ) -> None:
        self.mapping, self.access, self.array, self.sides = mapping, access, access.array, sides
        self.kept, self.has_parts = kept, mapping.most_parts > 1
        # columns without an output channel have sums, too, where parameters have offsets, or parts other biases
        self.masked = not padded or self.has_parts
        self.sum_latency = ActivationMemory.LATENCY + self.array.latency
        """Cycles from a word to the sum that it completes."""
        self.latency = self.sum_latency + mapping.pooling_latency - latency.POOLING
        """Cycles from a word to what is two registers ahead of the outputs that it completes."""

    def compute(self, m: Module, engine: wiring.Component, sequencer: Sequencer) -> StageOutput:
        """Add the path; the outputs that it gives."""
        mapping, port, sides = self.mapping, self.array.port, self.sides
        m.submodules.pooling = pooling = Pooling(mapping)
        m.submodules.memory = memory = sides.output_memory(self.kept)
        begin = sides.until_outputs(m, sequencer.begin, self.latency, "output_begin")
        # field by field: a single stage's target and mask are not used, and their registers go
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
        """Connect what stages of some networks make of their sums besides ReLU."""
        for name in sequencer.function.signature.members:
            value = self.sides.until_outputs(
                m, getattr(sequencer.function, name), self.sum_latency, name, reset_less=True
            )
            m.d.comb += getattr(pooling, _POOLING_PORTS.get(name, name)).eq(value)

    def _clipped(self, pooling: Pooling) -> Value:
        """Number of sums that were clipped, those of another component that shares the array included."""
        clipped, port = self.array.clipped, self.array.port
        if self.masked:
            own = pooling.control.mask
            if self.mapping.has_merged_pixels:
                # of both pixels, whose outputs are those of the lower half of the columns
                own = own | (pooling.merged.replicate(len(own)) & (own << len(own) // 2))
            clipped = clipped & (own | self.access.foreign(self.sides.buffers.running))
        counts = port.valid & pooling.control.inside if self.mapping.has_padded_pools else port.valid
        return sum((bit & counts for bit in clipped), Value.cast(0))

    def _part(self, m: Module, control: dict[str, Value], cells: Value) -> None:
        """Control of further parts of a sum: that of the part before, for the channels behind its own."""
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
