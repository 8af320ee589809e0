"""Passes of a forward engine: of one side, a sample after the other, or of both sides of a perturbation in turn."""

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
    """Passes of all stages, a sample after the other.

    Of several stages each begins as soon as its words find what they read: before all outputs of the one before are
    there, so that control follows the words. A single stage begins as the outputs before were written.

    Parameters
    ----------
    mapping : Mapping
        The network.
    reads : int
        Values of the outputs that are read at once, 1 or 2.

    Attributes
    ----------
    ports : dict of str to Member
        Ports that the engine has for them: none.
    """

    def __init__(self, mapping: Mapping, reads: int = 1) -> None:
        self.mapping, self.reads, self._overlap = mapping, reads, len(mapping.stages) > 1
        self.ports: dict[str, Member] = {}

    @cached_property
    def buffers(self) -> SampleBuffers:
        """Buffers of the samples, made where the engine is elaborated."""
        return OverlappingBuffers(self.mapping) if self._overlap else SampleBuffers(self.mapping)

    def sequencer(self, drain: int, across: int) -> Sequencer:
        """Make the sequencer; `drain` as for it, and the latency of the array."""
        if not self._overlap:
            return Sequencer(self.mapping, drain)
        return OverlappingSequencer(self.mapping, drain, stage_pauses(self.mapping, across))

    def connect(self, m: Module, engine: wiring.Component, sequencer: Sequencer) -> None:
        """Connect what controls the passes."""
        m.d.comb += self.buffers.done.eq(sequencer.done)
        if self._overlap:
            m.d.comb += [self.buffers.consumed.eq(sequencer.consumed), self.buffers.issued.eq(sequencer.issued)]

    def output_memory(self, kept: int) -> OutputMemory:
        """Make the output memory, for outputs of stages from number `kept` on."""
        if self.reads == 1:
            return OutputMemory(self.mapping, kept)
        if kept:
            raise ValueError(f"two values are read at once, where all outputs are kept: give kept = 0, not {kept}")
        return PairedOutputMemory(self.mapping)

    def connect_outputs(
        self, m: Module, engine: wiring.Component, outputs: OutputMemory, sequencer: Sequencer, cycles: int
    ) -> None:
        """Connect the sides of the output memory, of which there is one, and the second value that is read."""
        if self.reads == 2:
            m.d.comb += [
                outputs.second_address.eq(engine.outputs.second_address),
                outputs.second_column.eq(engine.outputs.second_column),
                engine.outputs.second_value.eq(outputs.second_value),
            ]

    def until_outputs(self, m: Module, value: Value, cycles: int, name: str, reset_less: bool = False) -> Value:
        """Delay control of a stage until its outputs need it: that of a single stage stays until they are there."""
        return delayed(m, value, cycles, name, reset_less) if self._overlap else value

    def own_sums(self, valid: Value) -> Value:
        """Tell whether sums of the array are those of a sample."""
        return valid & self.buffers.running


class TwoSides:
    """Passes of a range of stages, of one side or of both, stage by stage.

    One side's words are issued while the outputs of the other one are written: a stage begins before the outputs of
    the one before are there, and its control follows the words.

    Parameters
    ----------
    mapping : Mapping
        The network, with two sides.

    Attributes
    ----------
    ports : dict of str to Member
        Ports that the engine has for them:

        both : In, 1
            Compute each sample with both sides of the offsets, and not only with the first one; stays the same while
            samples are there.
        passes : In, `Passes`
            Stages of a pass, and where its inputs come from.
    """

    reads = 1
    """Values of the outputs that are read at once."""

    def __init__(self, mapping: Mapping) -> None:
        self.mapping = mapping
        self.ports: dict[str, Member] = {"both": In(1), "passes": In(Passes(mapping))}

    @cached_property
    def buffers(self) -> RestoringBuffers:
        """Buffers of the samples, made where the engine is elaborated."""
        return RestoringBuffers(self.mapping)

    def sequencer(self, drain: int, across: int) -> Sequencer:
        """Make the sequencer; parameters as for `OneSide`."""
        return AlternatingSequencer(self.mapping, drain)

    def connect(self, m: Module, engine: wiring.Component, sequencer: Sequencer) -> None:
        """Connect what controls the passes; the next sample may begin as all words of one were issued."""
        m.d.comb += [
            self.buffers.restore.eq(engine.passes.restore),
            self.buffers.done.eq(sequencer.issued),
            sequencer.both.eq(engine.both),
            sequencer.first_stage.eq(engine.passes.first),
            sequencer.last_stage.eq(engine.passes.last),
        ]

    def output_memory(self, kept: int) -> OutputMemory:
        """Make the output memory, for outputs of stages from number `kept` on."""
        return SidedOutputMemory(self.mapping, kept)

    def connect_outputs(
        self, m: Module, engine: wiring.Component, outputs: OutputMemory, sequencer: Sequencer, cycles: int
    ) -> None:
        """Connect the sides of the output memory: that of a stage `cycles` after its begin, and the reader's."""
        m.d.comb += [
            outputs.into.eq(delayed(m, sequencer.side, cycles, "output_side", reset_less=True)),
            outputs.side.eq(engine.outputs.side),
        ]

    def until_outputs(self, m: Module, value: Value, cycles: int, name: str, reset_less: bool = False) -> Value:
        """Delay control of a stage until its outputs need it."""
        return delayed(m, value, cycles, name, reset_less)

    def own_sums(self, valid: Signal) -> Value:
        """Tell whether sums of the array are those of a sample: all are, also of one that runs no more."""
        return valid
