"""Adapter engine: a forward engine and a backward engine that take turns at one array, and the records between them."""

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
    """Run the frozen network on new samples and record them, and tune the adapters on batches of records.

    Samples and batches take turns: a batch may start while `running` is 0, and needs `hold` from the cycle before its
    start to its end.

    Parameters
    ----------
    mapping : AdapterMapping
    batch : int
        Most samples of a batch.
    urng : UrngSpec, optional
        Generator of the random numbers with which parameters are rounded.
    watched : bool
        Gradients with respect to logits are shown.

    Attributes
    ----------
    parameters : In, `ParameterWrite`
        Frozen parameters and adapters; beats of the frozen ones in their order. Between samples and batches.
    clearing : Out, 1
        Activations are cleared, from the cycle after the first frozen parameters on; no sample begins before.
    saved : In, `AdapterRead`
        The adapters' image, between batches.
    sample : In, `SampleInput`
        New samples.
    hold : In, 1
        Start no further sample.
    running : Out, 1
        A sample is computed.
    raw : In, 1
        Records are in Q8.16; stays the same during a job.
    record : Out stream of beats
        The record of each sample.
    record_done : Out, 1
        A record's last beat is made.
    rows : In, `BatchWrite`
        Writes to the batch memory.
    labels : In, `LabelWrite`
        Writes of labels.
    batch : In, `BatchRun`
        The batch to compute.
    show : In, 1
        Give the batch's logits.
    logits : Out stream of logits
        Logits as they come. A batch waits for them.
    updates : Out, `AdapterUpdates`
        Beats of the adapters' image as they are updated.
    gradient : Out, `GradientWatch`, where it is shown
        Gradients with respect to logits.
    clipped : Out, 8
        Values that were clipped, two cycles ago.
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
        """Beats of the frozen parameters go to the forward engine, those of A and B to the backward engine.

        The last one of the frozen parameters is held until the forward engine has cleared its activations.
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
