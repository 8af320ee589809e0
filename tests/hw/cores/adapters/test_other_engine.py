# amaranth: UnusedElaboratable=no
"""The trainer of adapters with an engine of one's own, without an array: sums of words, and an adapter that counts."""

from types import SimpleNamespace

import numpy as np
from amaranth.hdl import Array, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from fabtune.golden.axi.bus import reach
from fabtune.golden.cores.adapters.registers import RAW, WRITE_LOGITS, Command, Error, adapter_registers
from fabtune.golden.cores.shell import Address
from fabtune.hw.axi.memory_port import ReadPort, WritePort
from fabtune.hw.cores.adapters.adapter_passes import AdapterPasses
from fabtune.hw.cores.adapters.adapter_trainer import AdapterTrainer
from fabtune.hw.cores.shelled_core import Monitor
from fabtune.hw.lora.job_interfaces import BatchLoad, BatchRun, LabelWrite
from fabtune.hw.nn.interfaces import BEATS, LOGIT, SampleInput

from ...outside import Outside
from ...play import play_interface
from ..zostream.stream_board import command

BATCH, CLASSES = 2, 3
PARTS = [(0, 2), (2, 2), (4, 1), (5, 2), (7, 2), (9, 1)]
"""First entry and entries of each batch of two epochs of five samples."""
SIZES = SimpleNamespace(
    labels=4,
    sample_beats=1,
    takes_sample=False,
    record_beats=2,
    code_beats=1,
    scale_beats=1,
    raw_beats=1,
    unread_beats=0,
    unread_raw_beats=0,
    loads_apart=False,
    logit_beats=1,
)
SPEC = SimpleNamespace(
    registers=adapter_registers("sums", Address("parameters", "a word that is added", commands=(Command.LOAD,))),
    batch=BATCH,
    cached_samples=8,
    cache_ram_beats=0,
    ports=1,
    address=40,
    monitor=False,
    **dict.fromkeys(("rates", "early_stop", "validation"), False),
)


class Sums(wiring.Component):
    """A sample's record is its first word and `frozen`; logit k is that, the adapter and k. Labels move the adapter."""

    def __init__(self):
        super().__init__(
            {
                "sample": In(SampleInput()),
                **dict.fromkeys(("hold", "raw", "show"), In(1)),
                **dict.fromkeys(("running", "record_done"), Out(1)),
                "record": Out(BEATS),
                "labels": In(LabelWrite(BATCH)),
                "batch": In(BatchRun(BATCH)),
                "logits": Out(LOGIT),
                "clipped": Out(8),
                "frozen": In(16),
                "loaded": In(BEATS),
                "slot": In(range(2 * BATCH)),
                "unpacked": In(BEATS),
                "adapter": Out(16),
            }
        )

    def elaborate(self, platform):
        m = Module()
        records, labels = (Array(Signal(16, name=f"{name}{slot}") for slot in range(2 * BATCH)) for name in ("r", "l"))
        m.d.comb += [self.loaded.ready.eq(1), self.unpacked.ready.eq(1)]
        with m.If(self.loaded.valid):
            m.d.sync += self.adapter.eq(self.loaded.payload)
        with m.If(self.unpacked.valid):
            m.d.sync += records[self.slot].eq(self.unpacked.payload)
        with m.If(self.labels.enable):
            m.d.sync += labels[self.labels.address].eq(self.labels.label)
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += self.sample.room.eq(1)
                with m.If(self.sample.start):
                    m.next = "TAKE"
            with m.State("TAKE"):
                m.d.comb += [self.running.eq(1), self.sample.beats.ready.eq(1)]
                m.d.sync += self.record.payload.eq((self.sample.beats.payload + self.frozen)[:16])
                with m.If(self.sample.beats.valid):
                    m.d.comb += self.sample.done.eq(1)
                    m.next = "RECORD"
            with m.State("RECORD"):
                m.d.comb += [self.running.eq(1), self.record.valid.eq(1)]
                with m.If(self.record.ready):
                    m.d.comb += self.record_done.eq(1)
                    m.next = "IDLE"
        run, number, part, label_sum = self.batch, Signal(range(BATCH)), Signal(range(CLASSES)), Signal(16)
        slot = number + run.half * BATCH
        last, moved = part == CLASSES - 1, label_sum + labels[slot]
        m.d.comb += [
            self.logits.payload.logit.eq(records[slot] + self.adapter + part),
            self.logits.payload.last.eq(last),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [number.eq(0), part.eq(0), label_sum.eq(0)]
                with m.If(run.start):
                    m.next = "GIVE"
            with m.State("GIVE"):
                m.d.comb += self.logits.valid.eq(self.show)
                with m.If(self.logits.ready | ~self.show):
                    m.d.sync += part.eq(part + 1)
                    with m.If(last):
                        m.d.sync += [part.eq(0), number.eq(number + 1), label_sum.eq(moved)]
                        with m.If(number == run.count - 1):
                            m.next = "MOVE"
            with m.State("MOVE"):
                m.d.comb += [run.labels_done.eq(1), run.done.eq(1)]
                with m.If(run.learn):
                    m.d.sync += self.adapter.eq(self.adapter + label_sum * run.rate)
                m.next = "IDLE"
        return m


class Unpacker(wiring.Component):
    """Gives each record of a batch its slot."""

    def __init__(self):
        super().__init__(
            {
                "load": In(BatchLoad(BATCH)),
                **dict.fromkeys(("samples", "records"), In(BEATS)),
                "slot": Out(range(2 * BATCH)),
                "o": Out(BEATS),
            }
        )

    def elaborate(self, platform):
        m = Module()
        left, number = Signal(range(BATCH + 1)), Signal(range(BATCH))
        m.d.comb += [
            self.load.busy.eq(left != 0),
            self.records.ready.eq(left != 0),
            self.slot.eq(number + self.load.half * BATCH),
            self.o.payload.eq(self.records.payload),
            self.o.valid.eq(self.records.valid & (left != 0)),
        ]
        with m.If(self.load.start):
            m.d.sync += [left.eq(self.load.count), number.eq(0)]
        with m.Elif(self.o.valid):
            m.d.sync += [left.eq(left - 1), number.eq(number + 1)]
        return m


class Transfer(wiring.Component):
    """Moves images of a beat."""

    def __init__(self):
        super().__init__(
            {
                **dict.fromkeys(("load_frozen", "load_adapters", "save_adapters"), In(1)),
                "address": In(reach(SPEC.address)),
                "done": Out(1),
                "read": Out(ReadPort(reach(SPEC.address))),
                "write": Out(WritePort(reach(SPEC.address))),
                "frozen": Out(16),
                "loaded": Out(BEATS),
                "adapter": In(16),
            }
        )

    def elaborate(self, platform):
        m = Module()
        read, write, of_frozen = self.read, self.write, Signal()
        for port in (read, write):
            m.d.comb += [port.command.payload.address.eq(self.address), port.command.payload.beats.eq(1)]
        m.d.comb += [
            self.loaded.payload.eq(read.beats.payload),
            self.loaded.valid.eq(read.beats.valid & ~of_frozen),
            read.beats.ready.eq(1),
            write.beats.payload.eq(self.adapter),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += of_frozen.eq(self.load_frozen)
                with m.If(self.load_frozen | self.load_adapters):
                    m.next = "READ"
                with m.If(self.save_adapters):
                    m.next = "WRITE"
            with m.State("READ"):
                m.d.comb += read.command.valid.eq(1)
                with m.If(read.command.ready):
                    m.next = "TAKE"
            with m.State("TAKE"), m.If(read.beats.valid):
                with m.If(of_frozen):
                    m.d.sync += self.frozen.eq(read.beats.payload)
                m.next = "DONE"
            with m.State("WRITE"):
                m.d.comb += write.command.valid.eq(1)
                with m.If(write.command.ready):
                    m.next = "GIVE"
            with m.State("GIVE"):
                m.d.comb += write.beats.valid.eq(1)
                with m.If(write.beats.ready):
                    m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += self.done.eq(1)
                m.next = "IDLE"
        return m


class SumPasses(AdapterPasses):
    """The three together."""

    def __init__(self):
        self.sizes, self.engine, self.unpacker, self.transfer = SIZES, Sums(), Unpacker(), Transfer()

    @classmethod
    def monitor_of(cls, spec):
        return Monitor(1)

    def connect(self, m):
        wiring.connect(m, self.transfer.loaded, self.engine.loaded)
        wiring.connect(m, self.unpacker.o, self.engine.unpacked)
        m.d.comb += [
            self.engine.frozen.eq(self.transfer.frozen),
            self.engine.slot.eq(self.unpacker.slot),
            self.transfer.adapter.eq(self.engine.adapter),
        ]

    def show(self, m, monitor):
        m.d.comb += monitor.data.eq(self.engine.adapter)

    def work(self, m, computing, coming):
        return {}


def beats(values):
    """An image with a word in each beat."""
    words = np.zeros((len(values), 4), "<u4")
    words[:, 0] = values
    return words.view(np.uint8).reshape(-1)


def test_the_trainer_knows_no_array():
    values, order, labels = [500, 40, 7, 60, 9], [0, 2, 4, 1, 3] * 2, [1, 2, 0, 3, 1] * 2
    frozen, adapter, rate, epochs = 1000, 30, 5, 2
    outside, trainer = Outside(stall=0.2), AdapterTrainer(SPEC, SumPasses())
    at = {name: 0x1000 * (2 + place) for place, name in enumerate(item.name for item in SPEC.registers.addresses)}
    settings = at | {"cache_entries": 5, "samples_per_epoch": 5, "epochs": epochs, "batch": BATCH, "rate": rate}
    settings |= {"mode": RAW.mask | WRITE_LOGITS.mask}
    entries = [index | label << 24 for index, label in zip(order, labels, strict=True)]
    lists = [np.array(entries[first : first + count], "<u4") for first, count in PARTS]
    images = {"parameters": beats([frozen]), "adapters": beats([adapter]), "samples": beats(values)}
    images["order"] = np.concatenate([np.pad(one, (0, -len(one) % 4)) for one in lists]).view(np.uint8)
    for name, image in images.items():
        outside.load(at[name], image)

    expected = []
    for batch in lists:
        indices, own = batch & 0xFFFFFF, batch >> 24
        expected += [[values[index] + frozen + adapter + part for part in range(CLASSES)] for index in indices]
        adapter += rate * int(own.sum())
    ended = []

    async def body(bench):
        for code in (Command.LOAD, Command.LOAD_ADAPTERS, Command.TUNE, Command.SAVE_ADAPTERS):
            ended.append(await command(bench, code, settings))
            await bench.tick(40)
        bench.set({"control.hold": 1})
        ended.append(await command(bench, Command.TUNE, settings | {"cache_entries": 3}))

    background = [outside.reader(0, trainer.reader0), outside.writer(0, trainer.writer0)]
    play_interface(trainer, body=body, background=background, limit=60_000)
    assert [fault for _, fault in ended] == [None] * 4 + [(Error.BAD_INDEX, 4)]
    assert [(counts["batches"], counts["misses"]) for counts, _ in ended[:4]] == [(0, 0), (0, 0), (6, 5), (0, 0)]
    assert np.array_equal(outside.image(at["cache"], 80), beats([value + frozen for value in values]))
    logits = outside.image(at["logits"], 16 * len(expected)).view("<u4").reshape(-1, 4)
    assert logits[:, :CLASSES].tolist() == expected
    assert np.array_equal(outside.image(at["adapters"], 16), beats([adapter]))
