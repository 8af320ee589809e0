"""Walks a batch: forward sample by sample, backward tile by tile, and what each gradient does to its parameters."""

from amaranth.hdl import Array, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..golden.plan import Plan
from .delay import delayed
from .loader import words_of
from .mac import PARAMETER
from .updater import RATE, VALUES, Updater


class Tuner(wiring.Component):
    """One word a cycle.

    Forward, a sample's words follow each other, and with the last of an adapter its sum is complete. Backward, the
    batch's samples of one tile follow each other, so that each multiplier has the gradient of one parameter when the
    last has passed; while the next tile is on its way the gradients leave, eight a cycle.

    Attributes
    ----------
    start, half, count, learn, rate, done
        A batch: in which half of the batch memory, samples, whether it ends after the logits, a sample's rate.
    finished
        Samples whose gradients are known.
    enable, within, first, last, base
        Flags of a word: for the multipliers, and whether it is a sample's base logits.
    address, tile, dh
        Where the word, its parameters and the gradient at its adapter are.
    complete, sums, parameters
        A tile's gradients; its parameters, as `tile` addresses them.
    entry, b_value, db_value
        Of B.
    write, beat, o
        A beat of the adapters' image that was updated.
    clipped
        How many values were clipped in this cycle.
    """

    def __init__(self, plan: Plan, batch: int, width: int) -> None:
        self.plan, self.batch, self.width = plan, batch, width
        self.entries = plan.network.classes * plan.adapters
        values = plan.lanes * plan.columns
        self.slices = values // VALUES
        self.beats = plan.tiles * self.slices + self.entries
        self.updater = Updater(width, (self.beats - 1).bit_length())
        super().__init__(
            {
                **dict.fromkeys(("start", "half", "learn", "complete"), In(1)),
                **dict.fromkeys(("done", "enable", "within", "first", "last", "base", "write"), Out(1)),
                "count": In(range(batch + 1)),
                "rate": In(RATE),
                "finished": In(range(batch + 1)),
                "address": Out(range(2 * batch * words_of(plan))),
                "tile": Out(range(max(plan.tiles, 2))),
                "dh": Out(range(batch * plan.adapters)),
                "sums": In(data.ArrayLayout(signed(width), values)),
                "parameters": In(data.ArrayLayout(PARAMETER, values)),
                "entry": Out(range(self.entries)),
                "b_value": In(data.ArrayLayout(PARAMETER, plan.columns)),
                "db_value": In(data.ArrayLayout(signed(width), plan.columns)),
                "beat": Out(range(self.beats)),
                "o": Out(data.ArrayLayout(PARAMETER, VALUES)),
                "clipped": Out(self.updater.clipped.shape()),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        plan = self.plan
        words = words_of(plan)
        m.submodules.updater = updater = self.updater
        m.d.comb += [
            updater.rate.eq(self.rate),
            self.write.eq(updater.done),
            self.beat.eq(updater.o_tag),
            self.o.eq(updater.o),
            self.clipped.eq(updater.clipped),
        ]
        sample, word = Signal.like(self.count), Signal(range(words))
        last_sample, last_word = Signal(), Signal()
        pace, pause = Signal(range(max(self.batch, self.slices + 4) + 1)), Signal(range(16))
        origin, place = Signal.like(self.address), Signal.like(self.address)
        dh, entry = Signal.like(self.dh), Signal(range(self.entries + 1))
        forward, backward, column = Signal(), Signal(), Signal()
        final = Signal.like(self.count)
        m.d.sync += final.eq(self.count - 1)
        m.d.comb += [last_sample.eq(sample == final), last_word.eq(word == words - 1)]
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [sample.eq(0), word.eq(0), entry.eq(0)]
                m.d.sync += [
                    place.eq(Mux(self.half, self.batch * words, 0)),
                    origin.eq(Mux(self.half, self.batch * words, 0)),
                ]
                with m.If(self.start):
                    m.next = "FORWARD"
            with m.State("FORWARD"):
                m.d.comb += forward.eq(1)
                m.d.sync += [place.eq(place + 1), word.eq(word + 1)]
                with m.If(last_word):
                    m.d.sync += [word.eq(0), sample.eq(sample + 1)]
                    with m.If(last_sample):
                        m.d.sync += sample.eq(0)
                        m.next = "HEAD"
            with m.State("HEAD"):
                m.d.sync += [place.eq(origin), pace.eq(0), dh.eq(0), pause.eq(0)]
                with m.If(self.finished == self.count):
                    m.next = "BACKWARD"
                    with m.If(~self.learn):
                        m.d.comb += self.done.eq(1)
                        m.next = "IDLE"
            with m.State("BACKWARD"):
                m.d.comb += backward.eq(sample != self.count)
                with m.If(backward):
                    m.d.sync += [sample.eq(sample + 1), place.eq(place + words), dh.eq(dh + plan.adapters)]
                m.d.sync += pace.eq(pace + 1)
                # a tile takes at least as long as the gradients of the one before need to leave
                with m.If((pace >= self.slices + 3) & (~backward | last_sample)):
                    m.d.sync += [
                        pace.eq(0),
                        sample.eq(0),
                        word.eq(word + 1),
                        place.eq(origin + 1),
                        origin.eq(origin + 1),
                    ]
                    m.d.sync += dh.eq(0)
                    self._next_adapter(m, word, dh)
                    with m.If(word == plan.tiles - 1):
                        m.next = "LEAVE"
            with m.State("LEAVE"):
                # the last tile's gradients leave before those of B
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

        first, last = self._ends(m, word)
        draining = self._drain(m, updater, column, entry)
        m.d.sync += [
            self.enable.eq((forward & ~last_word) | backward),
            self.within.eq(backward),
            self.first.eq(Mux(backward, sample == 0, first)),
            self.last.eq(Mux(backward, last_sample, last)),
            self.base.eq(forward & last_word),
            self.address.eq(place),
            self.dh.eq(dh),
        ]
        # backward, the parameters are read for what leaves
        m.d.sync += self.tile.eq(Mux(forward, word, draining))
        m.d.comb += self.entry.eq(entry)
        return m

    def _ends(self, m: Module, word: Signal) -> tuple[Signal, Signal]:
        """Whether a word is the first, the last of its adapter's input."""
        first, last, begin = Signal(), Signal(), 0
        for words in self.plan.adapter_words:
            with m.If(word == begin):
                m.d.comb += first.eq(1)
            begin += len(words)
            with m.If(word == begin - 1):
                m.d.comb += last.eq(1)
        return first, last

    def _next_adapter(self, m: Module, word: Signal, dh: Signal) -> None:
        """The adapter of the tile after this one."""
        begin = 0
        for number, words in enumerate(self.plan.adapter_words):
            begin += len(words)
            for_next = [tile for tile in range(begin - len(words) - 1, begin - 1) if tile >= 0]
            if number and for_next:
                with m.If((word >= for_next[0]) & (word <= for_next[-1])):
                    m.d.sync += dh.eq(number)

    def _drain(self, m: Module, updater: Updater, column: Signal, entry: Signal) -> Signal:
        """Holds a tile's gradients and sends them to the updater, eight a cycle; or those of B."""
        plan, slices = self.plan, self.slices
        held = Signal(self.sums.shape())
        tile, part, busy = Signal(range(plan.tiles + 1)), Signal(range(slices)), Signal()
        number = Signal(range(plan.tiles * slices + 1))
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
        m.d.sync += [
            updater.valid.eq(busy | taken),
            updater.tag.eq(Mux(taken, plan.tiles * slices + place, number)),
        ]
        for at in range(VALUES):
            total = Array(held[by * VALUES + at] for by in range(slices))[part]
            value = Array(self.parameters[by * VALUES + at] for by in range(slices))[part]
            b_value, db_value = (self.b_value[at], self.db_value[at]) if at < plan.columns else (0, 0)
            m.d.sync += [
                updater.sums[at].eq(Mux(taken, db_value, total)),
                updater.parameters[at].eq(Mux(taken, b_value, value)),
            ]
        return tile
