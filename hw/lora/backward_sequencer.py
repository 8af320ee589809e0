"""Walks a batch: forward sample by sample, backward tile by tile, and what each gradient does to its parameters."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from ...golden.lora.mapping import AdapterMapping
from ..nn.mac import PARAMETER
from ..primitives.pipeline import delayed
from .update import RATE, VALUES, Updater


class BackwardSequencer(wiring.Component):
    """One row a cycle, which is one word of an adapter's input, or two.

    Forward, a sample's rows follow each other, and with the last of an adapter its sum is complete. Backward, the
    batch's samples of one row follow each other, so that each multiplier has the gradient of one parameter when the
    last has passed; while the next row is on its way the gradients leave, eight a cycle for each word of a row.

    Attributes
    ----------
    start, half, count, learn, rate, done
        A batch: in which half of the batch memory, samples, whether it ends after the logits, a sample's rate.
    finished
        Samples whose gradients are known.
    enable, within, first, last, base
        Flags of a row: for the multipliers, and whether it is a sample's base logits.
    address, tile, dh
        Where the row, its parameters and the gradient at its adapter are.
    complete, sums, parameters
        A tile's gradients; its parameters, as `tile` addresses them.
    entry, b_value, db_value
        Of B.
    write, beat, o
        Beats of the adapters' image that were updated: which of them, the number of the first.
    clipped
        How many values were clipped in this cycle.
    """

    def __init__(self, mapping: AdapterMapping, batch: int, width: int) -> None:
        self.mapping, self.batch, self.width = mapping, batch, width
        self.entries = mapping.classes * mapping.adapters
        values = mapping.lanes * mapping.columns
        self.slices = mapping.forward.word_beats // mapping.words_per_cycle
        self.updaters = [Updater(width) for _ in range(mapping.words_per_cycle)]
        super().__init__(
            {
                **dict.fromkeys(("start", "half", "learn", "complete"), In(1)),
                **dict.fromkeys(("done", "enable", "within", "first", "last", "base"), Out(1)),
                "count": In(range(batch + 1)),
                "rate": In(RATE),
                "finished": In(range(batch + 1)),
                "address": Out(range(2 * batch * mapping.sample_rows)),
                "tile": Out(range(max(mapping.adapter_rows, 2))),
                "dh": Out(range(batch * mapping.adapters)),
                "sums": In(data.ArrayLayout(signed(width), values)),
                "parameters": In(data.ArrayLayout(PARAMETER, values)),
                "entry": Out(range(self.entries)),
                "b_value": In(data.ArrayLayout(PARAMETER, mapping.ranks)),
                "db_value": In(data.ArrayLayout(signed(width), mapping.ranks)),
                "write": Out(mapping.words_per_cycle),
                "beat": Out(range(mapping.adapter_beats)),
                "o": Out(data.ArrayLayout(PARAMETER, VALUES * mapping.words_per_cycle)),
                "clipped": Out(range(2 * VALUES * mapping.words_per_cycle + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        mapping = self.mapping
        rows = mapping.sample_rows
        for number, updater in enumerate(self.updaters):
            m.submodules[f"updater{number}"] = updater
            m.d.comb += updater.rate.eq(self.rate)
        clipped = [updater.clipped for updater in self.updaters]
        m.d.comb += [
            self.write.eq(Cat(updater.done for updater in self.updaters)),
            self.o.eq(Cat(updater.o for updater in self.updaters)),
            self.clipped.eq(sum(clipped[1:], clipped[0])),
        ]
        sample, row = Signal.like(self.count), Signal(range(rows))
        last_sample, last_row = Signal(), Signal()
        pace, pause = Signal(range(max(self.batch, self.slices + 4) + 1)), Signal(range(16))
        origin, place = Signal.like(self.address), Signal.like(self.address)
        dh, entry = Signal.like(self.dh), Signal(range(self.entries + 1))
        # of a row's samples there are more; it has taken as long as the gradients of the one before need to leave
        more, paced = Signal(), Signal()
        # backward, whether the sample is the last one is known a cycle ahead
        ending, single, nearly = Signal(), Signal(), Signal.like(self.count)
        forward, backward, column = Signal(), Signal(), Signal()
        final = Signal.like(self.count)
        m.d.sync += [final.eq(self.count - 1), nearly.eq(final - 1), single.eq(final == 0)]
        m.d.comb += [last_sample.eq(sample == final), last_row.eq(row == rows - 1)]
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [sample.eq(0), row.eq(0), entry.eq(0)]
                m.d.sync += [
                    place.eq(Mux(self.half, self.batch * rows, 0)),
                    origin.eq(Mux(self.half, self.batch * rows, 0)),
                ]
                with m.If(self.start):
                    m.next = "FORWARD"
            with m.State("FORWARD"):
                m.d.comb += forward.eq(1)
                m.d.sync += [place.eq(place + 1), row.eq(row + 1)]
                with m.If(last_row):
                    m.d.sync += [row.eq(0), sample.eq(sample + 1)]
                    with m.If(last_sample):
                        m.d.sync += sample.eq(0)
                        m.next = "HEAD"
            with m.State("HEAD"):
                m.d.sync += [place.eq(origin), pace.eq(0), paced.eq(0), more.eq(1), dh.eq(0), pause.eq(0)]
                m.d.sync += ending.eq(single)
                with m.If(self.finished == self.count):
                    m.next = "BACKWARD"
                    with m.If(~self.learn):
                        m.d.comb += self.done.eq(1)
                        m.next = "IDLE"
            with m.State("BACKWARD"):
                m.d.comb += backward.eq(more)
                with m.If(more):
                    m.d.sync += [sample.eq(sample + 1), place.eq(place + rows), dh.eq(dh + mapping.adapters)]
                    m.d.sync += [more.eq(~ending), ending.eq(sample == nearly)]
                m.d.sync += [pace.eq(pace + 1), paced.eq(pace >= self.slices + 2)]
                with m.If(paced & (~more | ending)):
                    m.d.sync += [
                        pace.eq(0),
                        paced.eq(0),
                        more.eq(1),
                        ending.eq(single),
                        sample.eq(0),
                        row.eq(row + 1),
                        place.eq(origin + 1),
                        origin.eq(origin + 1),
                    ]
                    m.d.sync += dh.eq(0)
                    self._next_adapter(m, row, dh)
                    with m.If(row == mapping.adapter_rows - 1):
                        m.next = "LEAVE"
            with m.State("LEAVE"):
                # the last row's gradients leave before those of B
                m.d.sync += pace.eq(pace + 1)
                with m.If(pace == self.slices + 4):
                    m.next = "COLUMNS"
            with m.State("COLUMNS"):
                m.d.comb += column.eq(1)
                m.d.sync += [entry.eq(entry + 1), pause.eq(15)]
                with m.If(entry == self.entries - 1):
                    m.next = "SETTLE"
            with m.State("SETTLE"):
                m.d.sync += pause.eq(pause - 1)
                with m.If(pause == 0):
                    m.d.comb += self.done.eq(1)
                    m.next = "IDLE"

        first, last = self._ends(m, row)
        draining = self._drain(m, column, entry)
        m.d.sync += [
            self.enable.eq((forward & ~last_row) | backward),
            self.within.eq(backward),
            self.first.eq(Mux(backward, sample == 0, first)),
            self.last.eq(Mux(backward, ending, last)),
            self.base.eq(forward & last_row),
            self.address.eq(place),
            self.dh.eq(dh),
        ]
        # backward, the parameters are read for what leaves
        m.d.sync += self.tile.eq(Mux(forward, row, draining))
        m.d.comb += self.entry.eq(entry)
        return m

    def _ends(self, m: Module, row: Signal) -> tuple[Signal, Signal]:
        """Whether a row is the first, the last of its adapter's input."""
        first, last, begin = Signal(), Signal(), 0
        for rows in self.mapping.rows_per_adapter:
            with m.If(row == begin):
                m.d.comb += first.eq(1)
            begin += rows
            with m.If(row == begin - 1):
                m.d.comb += last.eq(1)
        return first, last

    def _next_adapter(self, m: Module, row: Signal, dh: Signal) -> None:
        """The adapter of the row after this one."""
        begin = 0
        for number, rows in enumerate(self.mapping.rows_per_adapter):
            begin += rows
            for_next = [one for one in range(begin - rows - 1, begin - 1) if one >= 0]
            if number and for_next:
                with m.If((row >= for_next[0]) & (row <= for_next[-1])):
                    m.d.sync += dh.eq(number)

    def _drain(self, m: Module, column: Signal, entry: Signal) -> Signal:
        """Holds a row's gradients and sends them to the updaters, a beat each a cycle; or those of B, to the first."""
        mapping, slices = self.mapping, self.slices
        held = Signal(self.sums.shape())
        tile, part, busy = Signal(range(mapping.adapter_rows + 1)), Signal(range(slices)), Signal()
        number = Signal(range(mapping.adapter_rows * slices + 1))
        with m.If(self.start):
            m.d.sync += [tile.eq(0), number.eq(0)]
        with m.If(self.complete):
            m.d.sync += [held.eq(self.sums), busy.eq(1), part.eq(0)]
        with m.Elif(busy):
            m.d.sync += [part.eq(part + 1), number.eq(number + 1)]
            with m.If(part == slices - 1):
                m.d.sync += [busy.eq(0), tile.eq(tile + 1)]
        taken = delayed(m, column, 1, "column")
        place = delayed(m, entry, 1, "entry")
        beat = Signal.like(self.beat)
        m.d.sync += beat.eq(Mux(taken, mapping.a_beats + place, number << exact_log2(mapping.words_per_cycle)))
        m.d.comb += self.beat.eq(delayed(m, beat, Updater.LATENCY, "beat"))
        for at in range(VALUES * mapping.words_per_cycle):
            updater, into = self.updaters[at // VALUES], at % VALUES
            starts = range(at, mapping.lanes * mapping.columns, VALUES * mapping.words_per_cycle)
            total = Array(held[start] for start in starts)[part]
            value = Array(self.parameters[start] for start in starts)[part]
            if at < VALUES:
                b_value, db_value = (self.b_value[at], self.db_value[at]) if at < mapping.ranks else (0, 0)
                total, value = Mux(taken, db_value, total), Mux(taken, b_value, value)
            m.d.sync += [updater.sums[into].eq(total), updater.parameters[into].eq(value)]
        for at, updater in enumerate(self.updaters):
            m.d.sync += updater.valid.eq(busy if at else busy | taken)
        return tile
