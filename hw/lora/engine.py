"""The memories and the multipliers, and the two that share them: the frozen network's sequencer and the tuner."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...golden.lora.mapping import AdapterMapping
from ..nn.activation_memory import ActivationMemory
from ..nn.mac import PARAMETER, MacArray
from ..nn.pooling import VALUE, Pooling
from ..nn.sequencer import Sequencer
from ..nn.weight_memory import WeightMemory
from ..primitives.pipeline import delayed
from .backward_sequencer import BackwardSequencer
from .logit_head import LOGIT, LogitHead
from .record_packer import RecordPacker
from .update import RATE, VALUES


class AdapterEngine(wiring.Component):
    """Everything but the memory outside: runs the frozen network on a sample, and tunes on a batch.

    Attributes
    ----------
    load, load_place, load_data, load_kind
        A beat of parameters: its number within weights, biases, A or B.
    a_place, a_data
        A beat of the adapters' image, two cycles later; between commands.
    image_...
        Writes a sample into the activations' memory.
    base_start, base_image, base_done
        Runs the frozen network on it.
    raw, record, record_done
        The beats of its record.
    batch_write, batch_address, batch_word
        Fills the batch memory: each word of a row has an enable of its own.
    start, half, count, learn, rate, done
        Runs a batch.
    label_write, label_address, label
        Labels of either half.
    show, logits
        Logits as they come.
    monitor, beat, updated, clipped
        Beats of the adapters' image that changed, which of them and the first one's number; values clipped in a cycle.
    """

    def __init__(self, mapping: AdapterMapping, batch: int) -> None:
        self.mapping = mapping
        terms = (
            max(max(stage.words for stage in mapping.forward.stages), mapping.adapter_rows * mapping.words_per_cycle)
            * mapping.lanes
        )
        self.array = MacArray(mapping.lanes, mapping.columns, terms, batch, mapping.words_per_cycle)
        self.activations = ActivationMemory(mapping.forward)
        self.tuner = BackwardSequencer(mapping, batch, self.array.within_width)
        self.head = LogitHead(mapping, batch)
        # by then a stage's last outputs are being written, and what follows reads later still
        drain = self.array.latency + 5
        self.sequencer = Sequencer(mapping.forward, drain)
        self.outputs = Pooling(mapping.forward)
        self.recorder = RecordPacker(mapping)
        self.depth = 2 * batch * mapping.sample_rows
        self.beats = max(mapping.forward.frozen_beats, mapping.adapter_beats)
        activations = self.activations.signature.members
        super().__init__(
            {
                "load": In(4),
                "load_place": In(range(self.beats)),
                "load_data": In(128),
                "a_place": In(range(mapping.adapter_beats)),
                "a_data": Out(128),
                "image_write": In(self.activations.run),
                "image_address": In(self.activations.bits),
                "image_copy": In(1),
                "image_value": In(VALUE),
                "image_values": In(activations["values"].shape),
                "image_ready": Out(1),
                **dict.fromkeys(("base_start", "base_image", "raw"), In(1)),
                **dict.fromkeys(("base_done", "record_done"), Out(1)),
                "record": Out(stream.Signature(128)),
                "batch_write": In(mapping.words_per_cycle),
                "batch_address": In(range(self.depth)),
                "batch_word": In(data.ArrayLayout(VALUE, mapping.lanes * mapping.words_per_cycle)),
                **dict.fromkeys(("start", "half", "learn", "show", "label_write"), In(1)),
                "count": In(range(batch + 1)),
                "rate": In(RATE),
                "done": Out(1),
                "label_address": In(range(2 * batch)),
                "label": In(8),
                "logits": Out(LOGIT),
                "monitor": Out(mapping.words_per_cycle),
                "beat": Out(range(mapping.adapter_beats)),
                "updated": Out(128 * mapping.words_per_cycle),
                "clipped": Out(8),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping, array, tuner, head = self.mapping, self.array, self.tuner, self.head
        sequencer, outputs, activations = self.sequencer, self.outputs, self.activations
        m.submodules.array, m.submodules.tuner, m.submodules.head = array, tuner, head
        m.submodules.sequencer, m.submodules.outputs = sequencer, outputs
        m.submodules.activations, m.submodules.recorder = activations, self.recorder

        # base: the frozen network has the multipliers
        base = Signal()
        with m.If(self.base_start):
            m.d.sync += base.eq(1)
        with m.Elif(self.base_done):
            m.d.sync += base.eq(0)
        m.d.comb += [
            sequencer.start.eq(self.base_start),
            sequencer.image.eq(self.base_image),
            self.base_done.eq(sequencer.done),
            sequencer.full.eq(self.recorder.full),
        ]
        # a cycle later: what a stage put out last is in the outbox
        m.d.sync += self.recorder.filled.eq(sequencer.filled)
        self._operands(m, base)
        self._results(m, base)
        self._adapters(m)
        clipped = Signal(range(mapping.columns + 1))
        m.d.sync += clipped.eq(sum((bit & array.valid for bit in array.clipped[1:]), array.clipped[0] & array.valid))
        m.d.sync += self.clipped.eq(clipped + head.clipped + tuner.clipped)
        m.d.comb += [
            head.start.eq(self.start),
            head.half.eq(self.half),
            head.label_write.eq(self.label_write),
            head.label_address.eq(self.label_address),
            head.label.eq(self.label),
            head.show.eq(self.show),
            tuner.start.eq(self.start),
            tuner.half.eq(self.half),
            tuner.count.eq(self.count),
            tuner.learn.eq(self.learn),
            tuner.rate.eq(self.rate),
            tuner.finished.eq(head.finished),
            self.done.eq(tuner.done),
        ]
        wiring.connect(m, head.logits, wiring.flipped(self.logits))
        return m

    def _operands(self, m: Module, base: Signal) -> None:
        """What the multipliers take, two registers after the tuner's addresses, five after the sequencer's."""
        mapping, array, tuner, sequencer = self.mapping, self.array, self.tuner, self.sequencer
        late = self.activations.LATENCY - 1
        fetched = self._batch(m)
        m.submodules.weights = weights = WeightMemory(mapping.forward.weight_words, mapping.lanes, mapping.columns)
        m.d.comb += [
            self.activations.address.eq(sequencer.address),
            weights.write.eq(self.load[0]),
            weights.place.eq(self.load_place),
            weights.beats.eq(self.load_data),
            weights.address.eq(delayed(m, sequencer.weight, late, "weight")),
        ]
        m.submodules.biases = biases = memory.Memory(
            shape=data.ArrayLayout(PARAMETER, mapping.columns), depth=mapping.forward.groups, init=[]
        )
        bias_in, bias = biases.write_port(), biases.read_port()
        m.d.comb += [
            bias_in.en.eq(self.load[1]),
            bias_in.addr.eq(self.load_place),
            bias_in.data.eq(self.load_data[: len(Value.cast(bias_in.data))]),
            bias.addr.eq(delayed(m, sequencer.bias, late + 1, "bias_place")),
        ]
        # a beat of A comes from outside, or some of them from the tuner
        tile_beats = mapping.a_beats
        m.submodules.a = a = WeightMemory(mapping.adapter_rows, mapping.lanes, mapping.columns, mapping.words_per_cycle)
        of_row = self.load_place[: exact_log2(mapping.words_per_cycle)]
        loaded = Cat(self.load[2] & (of_row == number) for number in range(mapping.words_per_cycle))
        slice_bits = exact_log2(mapping.forward.word_beats)
        saving = Signal()
        m.d.comb += [
            a.write.eq(Mux(self.load[2], loaded, Mux(tuner.beat < tile_beats, tuner.write, 0))),
            a.place.eq(Mux(self.load[2], self.load_place, tuner.beat)),
            a.beats.eq(Mux(self.load[2], self.load_data.replicate(mapping.words_per_cycle), tuner.o.as_value())),
            a.address.eq(Mux(saving, self.a_place[slice_bits:], tuner.tile)),
            tuner.parameters.eq(a.word),
            array.bias.eq(Mux(base, bias.data.as_value(), 0)),
        ]
        # between batches nobody else reads A
        busy = Signal()
        with m.If(self.start):
            m.d.sync += busy.eq(1)
        with m.Elif(self.done):
            m.d.sync += busy.eq(0)
        m.d.comb += saving.eq(~busy & ~self.start)
        part = delayed(m, self.a_place[:slice_bits], 1, "part")
        whole = delayed(m, self.a_place < tile_beats, 1, "whole")
        m.d.sync += self.a_data.eq(Mux(whole, a.word.as_value().word_select(part, 128), self.head.b_value.as_value()))
        m.d.comb += self.head.b_read.eq(Mux(busy, tuner.entry, self.a_place - tile_beats))

        odd = self.activations.odd
        for place, value in enumerate(fetched):
            lane = place % mapping.lanes
            here, beside = self.activations.word[lane], self.activations.word[(lane + 1) % mapping.lanes]
            x = Signal(VALUE, name=f"x{place}")
            m.d.sync += x.eq(Mux(base, Mux(odd, beside, here), value))
            m.d.comb += array.x[place].eq(x)
        within = Signal()
        m.d.sync += within.eq(tuner.within)
        for place in range(mapping.lanes * mapping.columns):
            w = Signal(PARAMETER, name=f"w{place}")
            own = Mux(within, self.head.dh[place % mapping.ranks], a.word[place])
            m.d.sync += w.eq(Mux(base, weights.word[place], own))
            m.d.comb += array.w[place].eq(w)
        m.d.comb += self.head.dh_read.eq(tuner.dh)
        early = {name: delayed(m, getattr(sequencer, name), late + 2, name) for name in ("issue", "first", "last")}
        own = {name: delayed(m, getattr(tuner, name), 2, name) for name in ("enable", "within", "first", "last")}
        if mapping.words_per_cycle == 2:
            m.d.comb += array.paired.eq(~base)
        m.d.comb += [
            array.enable.eq(Mux(base, early["issue"], own["enable"])),
            array.within.eq(own["within"] & ~base),
            array.first.eq(Mux(base, early["first"], own["first"])),
            array.last.eq(Mux(base, early["last"], own["last"])),
            self.head.base_valid.eq(delayed(m, tuner.base, 2, "base_logits")),
            *(self.head.base[number].eq(array.x[number]) for number in range(mapping.classes)),
        ]

    def _batch(self, m: Module) -> list[Value]:
        """The batch memory, a part for each word of a row; the row at the tuner's address, a cycle later."""
        mapping = self.mapping
        values: list[Value] = []
        for number in range(mapping.words_per_cycle):
            part = memory.Memory(
                shape=data.ArrayLayout(VALUE, mapping.lanes), depth=self.depth, init=[], attrs={"ram_style": "ultra"}
            )
            m.submodules[f"batch{number}"] = part
            into, fetch = part.write_port(), part.read_port()
            first = number * mapping.lanes
            m.d.comb += [
                into.en.eq(self.batch_write[number]),
                into.addr.eq(self.batch_address),
                into.data.eq(Cat(self.batch_word[first + lane] for lane in range(mapping.lanes))),
                fetch.addr.eq(self.tuner.address),
            ]
            values.extend(fetch.data)
        return values

    def _results(self, m: Module, base: Signal) -> None:
        """Sums go on to the next stage, or are what an adapter passes on."""
        array, outputs, sequencer, activations = self.array, self.outputs, self.sequencer, self.activations
        after = self.activations.LATENCY + 1 + array.latency
        for name in ("pool_first", "pool_last", "target", "mask"):
            m.d.comb += getattr(outputs, name).eq(delayed(m, getattr(sequencer, name), after, f"late_{name}"))
        m.d.comb += [
            outputs.relu.eq(sequencer.relu),
            outputs.valid.eq(array.valid & base),
            outputs.values.eq(array.o),
            outputs.begin.eq(sequencer.begin),
            outputs.place.eq(sequencer.outbox),
            self.head.h_valid.eq(array.valid & ~base),
            *(self.head.h[rank].eq(array.o[rank]) for rank in range(self.mapping.ranks)),
        ]
        # a stage's outputs come first; a sample on its way waits
        own = outputs.writes
        m.d.comb += [
            self.image_ready.eq(~own),
            activations.write.eq(Mux(own, outputs.write, self.image_write)),
            activations.write_address.eq(Mux(own, outputs.write_address, self.image_address)),
            activations.values.eq(Mux(own, outputs.o.as_value(), self.image_values.as_value())),
            activations.copy.eq(self.image_copy & ~own),
            activations.value.eq(self.image_value),
        ]
        recorder = self.recorder
        m.d.comb += [
            outputs.read.eq(recorder.read),
            outputs.read_address.eq(recorder.read_address),
            outputs.read_column.eq(recorder.read_column),
            recorder.value.eq(outputs.value),
            recorder.raw.eq(self.raw),
            self.record_done.eq(recorder.done),
        ]
        wiring.connect(m, recorder.o, wiring.flipped(self.record))

    def _adapters(self, m: Module) -> None:
        """B is written from outside or by the tuner, which also tells what it changed."""
        tuner, head = self.tuner, self.head
        tile_beats = self.mapping.a_beats
        own = tuner.write[0] & (tuner.beat >= tile_beats)
        beat = Mux(self.load[3], self.load_data, tuner.o.as_value())
        m.d.comb += [
            head.b_write.eq(self.load[3] | own),
            head.b_address.eq(Mux(self.load[3], self.load_place, tuner.beat - tile_beats)),
            head.b_data.eq(beat[: len(Value.cast(head.b_data))]),
            tuner.complete.eq(self.array.complete),
            tuner.sums.eq(self.array.sums),
            tuner.b_value.eq(head.b_value),
            tuner.db_value.eq(head.db_value),
            self.monitor.eq(tuner.write),
            self.beat.eq(tuner.beat),
            self.updated.eq(tuner.o),
        ]


assert VALUES * PARAMETER.width == 128
