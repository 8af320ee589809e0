"""Forward engine: the frozen network, from the beats of a sample to the outputs of every stage.

Inference with it:

1. Send the beats of `golden.nn.array.images.frozen_image` to `load`, once; `loaded` follows the last beat.
2. For each sample, while ``sample.room`` is 1: set ``sample.start`` for a cycle, then send the beats of
   `golden.nn.array.images.samples_image` to ``sample.beats`` until ``sample.done``. The next sample may enter while a
   sample is computed.
3. Connect ``outputs`` to an `OutputReader`, a stream of the last stage's outputs, the logits.
"""

from amaranth.hdl import Const, Module, Mux
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.nn.array import latency
from ...golden.nn.array.mapping import Mapping
from .forward.array_access import OwnArray, SharedArray
from .forward.cut import Cut
from .forward.offset_parameters import OffsetParameters
from .forward.operands import OperandIssue
from .forward.outputs import OutputPath, OutputWrite
from .forward.parameters import FrozenParameters
from .forward.sides import OneSide, TwoSides
from .interfaces import BEATS, SampleInput, StageOutputs
from .memories.activation_clear import ActivationClear
from .memories.activation_memory import ActivationBanks
from .sample_writer import SampleWriter

_WORDS_ROTATED = 2
"""Most words rotated by a register."""


class ForwardEngine(wiring.Component):
    """Sequencer, memories of activations, weights, biases and outputs, array of multipliers, activation and pooling.

    The array takes a word a cycle while a stage runs. Between stages are a few states and `golden.nn.array.pauses`; a
    single stage waits until its outputs are written.

    The engine has the ports below, and the ports of its submodules. Defaults are for inference: a private array, loaded
    parameters, no perturbation.

    Parameters
    ----------
    mapping : Mapping
        The network.
    access : OwnArray or SharedArray, optional
        Private array, or one shared with another component.
    parameters : FrozenParameters or OffsetParameters, optional
        Loaded parameters, or parameters with offsets (``mapping.sides`` of 2).
    sides : OneSide or TwoSides, optional
        Perturbation signs of a pass, as many as `mapping.sides`.
    cut : Cut, optional
        Cut of the network; only with two signs.
    kept : int
        First stage with readable outputs.

    Attributes
    ----------
    load : In stream of beats
        Images of the frozen parameters, a beat a cycle, never during a sample. Always ready, except for the last beat
        during `clearing`.
    clearing : Out, 1
        The activation memory is being cleared: from the cycle after an image's first beat, for `Mapping.clear_cycles`.
    loaded : Out, 1
        One-cycle pulse: an image is complete and the activation memory is clear.
    sample : In, `SampleInput`
        Samples.
    hold : In, 1
        Start no further sample; a sample in progress continues.
    running : Out, 1
        A sample is computed, the array is in use. Does not rise from the cycle after `hold` on.
    done : Out, 1
        One-cycle pulse: a sample's last stage is complete for all signs.
    outputs : Out, `StageOutputs`
        Outputs of all stages.
    clipped : Out, range(columns + 1)
        Sums across the lanes clipped in the preceding cycle, also of a component that shares the array.
    """

    def __init__(
        self,
        mapping: Mapping,
        access: OwnArray | SharedArray | None = None,
        parameters: FrozenParameters | OffsetParameters | None = None,
        sides: OneSide | TwoSides | None = None,
        cut: Cut | None = None,
        kept: int = 0,
    ) -> None:
        self.mapping, self.access, self.sides = mapping, access or OwnArray(mapping), sides or OneSide(mapping)
        self.parameters, self.cut_memory = parameters or FrozenParameters(mapping), cut
        self.array, self.clear = self.access.array, ActivationClear(mapping)
        self._issue = OperandIssue(mapping, self.array, self.parameters)
        self._path = OutputPath(mapping, self.access, self.sides, self.parameters.padded, kept)
        # parts of sums follow each other
        self._drain = latency.drain_cycles(self.array.latency, mapping.pooling_latency) + mapping.most_parts - 1
        ports = [part.ports for part in (self.access, self.parameters, self.sides, cut) if part is not None]
        super().__init__(
            {
                "load": In(BEATS),
                "clearing": Out(1),
                "loaded": Out(1),
                "sample": In(SampleInput()),
                "hold": In(1),
                "running": Out(1),
                "done": Out(1),
                "outputs": Out(StageOutputs(mapping, self.sides.reads)),
                "clipped": Out(range(mapping.columns + 1)),
                **{name: member for members in ports for name, member in members.items()},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping, sides, buffers = self.mapping, self.sides, self.sides.buffers
        m.submodules.array = self.array
        # replicated registers of the last rotation
        copies = max(self.array.words_per_cycle // _WORDS_ROTATED, 1)
        m.submodules.activations = activations = ActivationBanks(mapping, copies)
        m.submodules.sequencer = sequencer = sides.sequencer(self._drain, self.array.latency)
        m.submodules.buffers = buffers
        m.submodules.writer = writer = SampleWriter(mapping)
        m.submodules.clear = clear = self.clear
        wiring.connect(m, wiring.flipped(self.sample.beats), writer.i)
        m.d.comb += [
            self.sample.room.eq(buffers.room),
            self.sample.done.eq(writer.done),
            buffers.enter.eq(self.sample.start),
            buffers.arrived.eq(writer.done),
            buffers.hold.eq(self.hold),
            writer.start.eq(self.sample.start),
            writer.buffer.eq(buffers.into),
            sequencer.start.eq(buffers.begin),
            sequencer.buffer.eq(buffers.current),
            sequencer.full.eq(self.outputs.full),
            self.clearing.eq(clear.active),
            self.running.eq(buffers.running),
            self.done.eq(sequencer.done),
        ]
        m.d.sync += self.outputs.filled.eq(sequencer.filled)
        sides.connect(m, self, sequencer)
        self.access.put(m, self, self._issue.issue(m, self, activations, sequencer, platform), buffers)
        outputs = self._path.compute(m, self, sequencer)
        self.access.give(m, self, buffers.running)
        write = outputs.write
        if self.cut_memory is not None:
            write = self.cut_memory.restore(m, self, buffers, sequencer, outputs)
        self._write(m, activations, clear, writer, write)
        return m

    def _write(
        self,
        m: Module,
        activations: ActivationBanks,
        clear: ActivationClear,
        writer: SampleWriter,
        outputs: OutputWrite,
    ) -> None:
        """Write activations: outputs before entering samples; a single stage's outputs are not written.

        Clearing excludes both.
        """
        chained = len(self.mapping.stages) > 1
        is_output, write, sample = outputs.write if chained else Const(0), activations.write, writer.write
        columns = self.mapping.columns
        m.d.comb += [
            writer.ready.eq(~is_output),
            write.write.eq(Mux(is_output, outputs.mask, sample.write) | Mux(clear.active, (1 << columns) - 1, 0)),
            write.address.eq(Mux(is_output, outputs.address, Mux(clear.active, clear.address, sample.address))),
            write.values.eq(Mux(clear.active, 0, Mux(is_output, outputs.values, sample.values.as_value()))),
            write.replicate.eq(sample.replicate & ~is_output & ~clear.active),
            write.value.eq(sample.value),
        ]
