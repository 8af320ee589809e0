"""Adapter engine: forward and backward engine on a shared array, and the record packer."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...golden.lora.mapping import AdapterMapping
from ...golden.rng.urng import UrngSpec
from ..nn.forward.array_access import SharedArray
from ..nn.forward.sides import OneSide
from ..nn.forward_engine import ForwardEngine
from ..nn.interfaces import BEATS, LOGIT, SampleInput
from ..nn.mac import MacArray
from .backward.backward_engine import BackwardEngine
from .backward.epoch_loss import GradientWatch
from .engine_interfaces import AdapterRead, AdapterUpdates, BatchWrite, ParameterKind, ParameterWrite
from .job.record_packer import RecordPacker
from .job_interfaces import BatchRun, LabelWrite


class AdapterEngine(wiring.Component):
    """Runs the frozen network on new samples, records their outputs, and tunes adapters on batches of records.

    Samples and batches alternate: a batch may start while `running` is 0, and needs `hold` from the cycle before its
    start to its end.

    Parameters
    ----------
    mapping : AdapterMapping
    batch : int
        Most samples of a batch.
    urng : UrngSpec, optional
        Generator for stochastic rounding of parameters.
    watched : bool
        Adds the port `gradient`.

    Attributes
    ----------
    parameters : In, `ParameterWrite`
        Frozen parameters, in order, and adapters; between samples and batches.
    clearing : Out(1)
        High from the cycle after the first frozen parameters until all activations are cleared; no sample may begin.
    saved : In, `AdapterRead`
    sample : In, `SampleInput`
    hold : In(1)
        Start no further sample.
    running : Out(1)
        A sample is computed.
    raw : In(1)
        Records are in Q8.16; stable during a job.
    record : Out stream of beats
        Record of each sample.
    record_done : Out(1)
        The last beat of a record is on offer from the next cycle on.
    rows : In, `BatchWrite`
    labels : In, `LabelWrite`
    batch : In, `BatchRun`
    show : In(1)
        Enables `logits`.
    logits : Out stream of logits
        Logits of the batch; the batch stalls with this stream.
    updates : Out, `AdapterUpdates`
    gradient : Out, `GradientWatch`, with `watched`
        Gradients of the loss with respect to logits.
    clipped : Out(8)
        Values clipped two cycles ago.
    """

    def __init__(
        self, mapping: AdapterMapping, batch: int, urng: UrngSpec | None = None, watched: bool = False
    ) -> None:
        self.mapping, self.watched = mapping, watched
        forward, words = mapping.forward, mapping.words_per_cycle
        terms = max(max(stage.sum_words for stage in forward.stages), mapping.adapter_rows * words) * mapping.lanes
        batch_terms = max(batch, forward.most_lane_terms)
        array = MacArray(
            mapping.lanes, mapping.columns, terms, batch_terms, words, forward.lane_parts, forward.has_halves
        )
        self.forward = ForwardEngine(forward, SharedArray(array), sides=OneSide(forward, reads=mapping.packed_at_once))
        self.backward = BackwardEngine(mapping, batch, array, urng=urng, watched=watched)
        super().__init__(
            {
                "parameters": In(ParameterWrite(mapping)),
                "clearing": Out(1),
                "saved": In(AdapterRead(mapping)),
                "sample": In(SampleInput()),
                "hold": In(1),
                "running": Out(1),
                "raw": In(1),
                "record": Out(BEATS),
                "record_done": Out(1),
                "rows": In(BatchWrite(mapping, batch)),
                "labels": In(LabelWrite(batch)),
                "batch": In(BatchRun(batch)),
                "show": In(1),
                "logits": Out(LOGIT),
                "updates": Out(AdapterUpdates(mapping)),
                **({"gradient": Out(GradientWatch())} if watched else {}),
                "clipped": Out(8),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        forward, backward = self.forward, self.backward
        m.submodules.forward, m.submodules.backward = forward, backward
        m.submodules.recorder = recorder = RecordPacker(self.mapping)
        wiring.connect(m, backward.array, forward.shared)
        wiring.connect(m, forward.outputs, recorder.outputs)
        wiring.connect(m, wiring.flipped(self.sample), forward.sample)
        wiring.connect(m, recorder.o, wiring.flipped(self.record))
        wiring.connect(m, backward.logits, wiring.flipped(self.logits))
        wiring.connect(m, backward.updates, wiring.flipped(self.updates))
        for name in ("saved", "rows", "labels", "batch"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(backward, name))
        m.d.comb += [
            self.clearing.eq(forward.clearing),
            forward.hold.eq(self.hold),
            self.running.eq(forward.running),
            recorder.raw.eq(self.raw),
            self.record_done.eq(recorder.done),
            backward.show.eq(self.show),
        ]
        if self.watched:
            wiring.connect(m, backward.gradient, wiring.flipped(self.gradient))
        m.d.sync += self.clipped.eq(forward.clipped + backward.clipped)
        self._load(m)
        return m

    def _load(self, m: Module) -> None:
        """Route frozen parameters to the forward engine, A and B to the backward engine.

        The last frozen beat is held until the forward engine has cleared its activations.
        """
        parameters, forward, load = self.parameters, self.forward.load, self.backward.load
        words = self.mapping.words_per_cycle
        beat_of_row = parameters.address[: exact_log2(words)]
        is_a = (parameters.kind & ParameterKind.A).any()
        offered, held = (parameters.kind & (ParameterKind.WEIGHT | ParameterKind.BIAS)).any(), Signal()
        held_beat = Signal.like(forward.payload, name="held_beat", reset_less=True)
        m.d.sync += held.eq(forward.valid & ~forward.ready)
        with m.If(offered):
            m.d.sync += held_beat.eq(parameters.beat)
        m.d.comb += [
            forward.valid.eq(offered | held),
            forward.payload.eq(Mux(held, held_beat, parameters.beat)),
            load.a.eq(Cat(is_a & (beat_of_row == number) for number in range(words))),
            load.b.eq((parameters.kind & ParameterKind.B).any()),
            load.address.eq(parameters.address),
            load.beats.eq(parameters.beat.replicate(words)),
        ]
