"""RTL of `adapter`: the backward engine with its array, behind streams."""

from amaranth.hdl import EnableInserter, Module, Mux, Signal
from amaranth.lib import wiring

from ...golden.lora.adapter import AdapterSpec
from ..nn.mac import MacArray
from ..ports import elements, members
from ..probe import probe
from .backward.backward_engine import BackwardEngine
from .engine_interfaces import VALUES


class Adapter(wiring.Component):
    """Takes a label, then its sample's rows, one a cycle; tunes the adapters after the last sample of a batch.

    Logits leave during the batch, updated parameters at its end. The engine stalls while a beat of parameters is not
    taken. Parameters load between batches, a whole image at a time; after reset an image comes first.
    """

    def __init__(self, spec: AdapterSpec) -> None:
        self.spec, mapping = spec, spec.mapping
        words = mapping.words_per_cycle
        terms = mapping.adapter_rows * mapping.lanes * words
        self.array = MacArray(mapping.lanes, mapping.columns, terms, spec.batch, words)
        self.engine = BackwardEngine(mapping, spec.batch, self.array, halves=1)
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        spec, mapping = self.spec, self.spec.mapping
        words = mapping.words_per_cycle
        array, engine = self.array, self.engine
        move = Signal()
        m.submodules.array, m.submodules.engine = EnableInserter(move)(array), EnableInserter(move)(engine)
        wiring.connect(m, engine.array, array.port)
        self._results(m, engine, move)
        if words > 1:
            m.d.comb += array.paired.eq(1)
        batch, labels, rows = engine.batch, engine.labels, engine.rows
        count, samples = Signal(range(spec.batch + 1)), Signal(range(spec.batch + 1))
        closed, busy = Signal(), Signal()
        address, row, last_row = Signal(range(spec.batch * spec.rows)), Signal(range(spec.rows)), Signal()
        fresh, wanted = Signal(init=1), Signal()
        loaded = self._load(m, engine, fresh)
        label = self.label.payload
        m.d.comb += [
            self.label.ready.eq(loaded & ~closed & ~(fresh & self.load.valid)),
            self.i.ready.eq(wanted),
            labels.enable.eq(self.label.valid & self.label.ready),
            labels.address.eq(count),
            labels.label.eq(label.label),
            rows.enable.eq((self.i.valid & self.i.ready).replicate(words)),
            *(each.eq(address) for each in (rows.address if mapping.loads_apart else [rows.address])),
            rows.words.eq(self.i.payload.x),
            batch.count.eq(count),
            batch.learn.eq(1),
        ]
        with m.If(labels.enable):
            end = label.last | (count == spec.batch - 1)
            m.d.sync += [count.eq(count + 1), closed.eq(end), batch.rate.eq(label.rate), fresh.eq(0)]
        with m.If(rows.enable[0]):
            m.d.sync += [address.eq(address + 1), row.eq(Mux(last_row, 0, row + 1))]
            m.d.sync += last_row.eq(row == spec.rows - 2)
            with m.If(last_row):
                m.d.sync += samples.eq(samples + 1)
        # rows follow their sample's label; between samples the comparison takes a cycle
        ended = rows.enable[0] & last_row
        m.d.sync += wanted.eq(~ended & (samples != count))
        begin = closed & (samples == count) & ~busy
        m.d.sync += batch.start.eq(begin)
        with m.If(begin):
            m.d.sync += busy.eq(1)
        with m.If(batch.done & move):
            m.d.sync += [busy.eq(0), closed.eq(0), count.eq(0), samples.eq(0), address.eq(0), fresh.eq(1)]
        probe(self, move=move, loaded=loaded, count=count, samples=samples, closed=closed, busy=busy, wanted=wanted)
        probe(self, row=row, last_row=last_row)
        return m

    def _results(self, m: Module, engine: BackwardEngine, move: Signal) -> None:
        """Connect logits and updated parameters; the engine stalls while a beat of parameters is not taken."""
        updates, parameters = engine.updates, elements(self.o.payload.parameter, self.spec.streams()["o"].fields[0])
        m.d.comb += [
            move.eq(~self.o.valid | self.o.ready),
            self.o.valid.eq(updates.write[0]),
            engine.show.eq(1),
            self.logits.valid.eq(engine.logits.valid),
            self.logits.payload.logit.eq(engine.logits.payload.logit),
            self.logits.payload.last.eq(engine.logits.payload.last),
            engine.logits.ready.eq(self.logits.ready),
        ]
        for lane, into in enumerate(parameters):
            # an entry of B is a single beat
            beat_valid = updates.write[lane // VALUES]
            m.d.comb += into.eq(updates.beats[lane] if lane < VALUES else Mux(beat_valid, updates.beats[lane], 0))

    def _load(self, m: Module, engine: BackwardEngine, fresh: Signal) -> Signal:
        """Load parameters with a cycle of latency; return whether an image is complete.

        Loads come between batches: no output is on offer, and the engine does not stall.
        """
        mapping, load = self.spec.mapping, engine.load
        words = mapping.words_per_cycle
        of_b, loaded = Signal(), Signal()
        beat = Signal(range(mapping.adapter_beats))
        taken = self.load.valid & self.load.ready
        end = beat == Mux(of_b, mapping.adapter_beats - mapping.a_beats - 1, mapping.a_beats - words)
        m.d.comb += self.load.ready.eq(fresh)
        m.d.sync += [
            load.a.eq((taken & ~of_b).replicate(words)),
            load.b.eq(taken & of_b),
            load.address.eq(beat),
            load.beats.eq(self.load.payload.parameter.as_value()),
        ]
        with m.If(taken):
            m.d.sync += [
                beat.eq(Mux(end, 0, beat + Mux(of_b, 1, words))),
                of_b.eq(of_b ^ end),
                loaded.eq(of_b & end),
            ]
        return loaded
