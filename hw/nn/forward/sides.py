"""Passes of a forward engine: without perturbation, or alternating between both perturbation signs."""

from functools import cached_property

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Member

from ....golden.nn.array.mapping import Mapping
from ....golden.nn.array.pauses import stage_pauses
from ...primitives.pipeline import delayed
from ..alternating_sequencer import AlternatingSequencer
from ..interfaces import Passes
from ..memories.output_memory import OutputMemory, PairedOutputMemory, SidedOutputMemory
from ..sample_buffers import OverlappingBuffers, RestoringBuffers, SampleBuffers
from ..sequencer import Sequencer
from .overlapping_sequencer import OverlappingSequencer


class OneSide:
    """Passes of all stages, sample by sample; adds no `ports` to the engine.

    Several stages overlap, with pipelined control; a single stage starts after the preceding outputs are written.

    Parameters
    ----------
    mapping : Mapping
        The network.
    reads : int
        Outputs read at once, 1 or 2.
    """

    def __init__(self, mapping: Mapping, reads: int = 1) -> None:
        self.mapping, self.reads, self._overlap = mapping, reads, len(mapping.stages) > 1
        self.ports: dict[str, Member] = {}

    @cached_property
    def buffers(self) -> SampleBuffers:
        """Sample buffers."""
        return OverlappingBuffers(self.mapping) if self._overlap else SampleBuffers(self.mapping)

    def sequencer(self, drain: int, across: int) -> Sequencer:
        """Sequencer with a count-down of `drain`, for an array latency of `across`."""
        if not self._overlap:
            return Sequencer(self.mapping, drain)
        return OverlappingSequencer(self.mapping, drain, stage_pauses(self.mapping, across))

    def connect(self, m: Module, engine: wiring.Component, sequencer: Sequencer) -> None:
        """Connect control of the passes."""
        m.d.comb += self.buffers.done.eq(sequencer.done)
        if self._overlap:
            m.d.comb += [self.buffers.consumed.eq(sequencer.consumed), self.buffers.issued.eq(sequencer.issued)]

    def output_memory(self, kept: int) -> OutputMemory:
        """Output memory of stages from `kept` on."""
        if self.reads == 1:
            return OutputMemory(self.mapping, kept)
        if kept:
            raise ValueError(f"two values are read at once, where all outputs are kept: give kept = 0, not {kept}")
        return PairedOutputMemory(self.mapping)

    def connect_outputs(
        self, m: Module, engine: wiring.Component, outputs: OutputMemory, sequencer: Sequencer, cycles: int
    ) -> None:
        """Connect the second read port of the output memory, if any."""
        if self.reads == 2:
            m.d.comb += [
                outputs.second_address.eq(engine.outputs.second_address),
                outputs.second_column.eq(engine.outputs.second_column),
                engine.outputs.second_value.eq(outputs.second_value),
            ]

    def until_outputs(self, m: Module, value: Value, cycles: int, name: str, reset_less: bool = False) -> Value:
        """Control of a stage, delayed to its outputs; a single stage's is constant."""
        return delayed(m, value, cycles, name, reset_less) if self._overlap else value

    def own_sums(self, valid: Value) -> Value:
        """Valid of a sample's sums."""
        return valid & self.buffers.running


class TwoSides:
    """Passes of a range of stages with one or both perturbation signs, stage by stage.

    Words of one sign are issued while outputs of the other are written, with pipelined control.

    Parameters
    ----------
    mapping : Mapping
        With ``sides=2``.

    Attributes
    ----------
    ports : dict of str to Member
        Ports added to the engine:

        both : In, 1
            Compute each sample with both signs, not only the first; constant while samples are present.
        passes : In, `Passes`
            Stages and inputs of a pass.
    """

    reads = 1
    """Outputs read at once."""

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        self.ports: dict[str, Member] = {"both": In(1), "passes": In(Passes(mapping))}

    @cached_property
    def buffers(self) -> RestoringBuffers:
        """Sample buffers."""
        return RestoringBuffers(self.mapping)

    def sequencer(self, drain: int, across: int) -> Sequencer:
        """Sequencer; parameters as for `OneSide`."""
        return AlternatingSequencer(self.mapping, drain)

    def connect(self, m: Module, engine: wiring.Component, sequencer: Sequencer) -> None:
        """Connect control of the passes; the next sample may follow a sample's last word."""
        m.d.comb += [
            self.buffers.restore.eq(engine.passes.restore),
            self.buffers.done.eq(sequencer.issued),
            sequencer.both.eq(engine.both),
            sequencer.first_stage.eq(engine.passes.first),
            sequencer.last_stage.eq(engine.passes.last),
        ]

    def output_memory(self, kept: int) -> OutputMemory:
        """Output memory of stages from `kept` on."""
        return SidedOutputMemory(self.mapping, kept)

    def connect_outputs(
        self, m: Module, engine: wiring.Component, outputs: OutputMemory, sequencer: Sequencer, cycles: int
    ) -> None:
        """Connect the signs of the output memory: a stage's, `cycles` after its begin, and the reader's."""
        m.d.comb += [
            outputs.into.eq(delayed(m, sequencer.side, cycles, "output_side", reset_less=True)),
            outputs.side.eq(engine.outputs.side),
        ]

    def until_outputs(self, m: Module, value: Value, cycles: int, name: str, reset_less: bool = False) -> Value:
        """Control of a stage, delayed to its outputs."""
        return delayed(m, value, cycles, name, reset_less)

    def own_sums(self, valid: Signal) -> Value:
        """Valid of a sample's sums: all sums."""
        return valid
