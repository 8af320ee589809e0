"""Delta memory: the deltas of every word of parameters, their update, and the offsets that are made of them."""

from enum import IntEnum

from amaranth.hdl import Cat, Module, Mux, Signal, Value, signed, unsigned
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from ...golden.axi.bus import BEAT
from ...golden.fixed import Q4_12, Format
from ...golden.zo.coefficient import COEFFICIENT
from ...golden.zo.deltas import DELTA
from ...golden.zo.mapping import PerturbationMapping
from ..axi.memory_port import BEATS
from ..ports import shape
from ..primitives.adder_tree import adder_tree
from ..primitives.pipeline import delayed
from ..primitives.rounding import RoundSaturate
from .offset_memory import OffsetRow

PER_BEAT = BEAT // 4
"""Deltas of a beat, 32 bits each."""


class Walk(IntEnum):
    """What a walk over all words does."""

    CLEAR = 0
    """Set the deltas to 0."""
    UPDATE = 1
    """Add the coefficient times the perturbation."""
    SIDES = 2
    """Make the offsets of both sides of the perturbation."""
    OFFSETS = 3
    """Make the offsets without a perturbation, as those of the plus side."""


class WalkControl(wiring.Signature):
    """Walks over all words, as the side sees it that asks for them.

    Attributes
    ----------
    start : Out, 1
        Begin a walk; one cycle, only while none is in progress.
    walk : Out, `Walk`
        In the cycle of `start`.
    coefficient : Out, signed
        Multiple of the perturbation for an update, `golden.zo.coefficient.COEFFICIENT`; the same until `done`.
    eps : Out, unsigned
        Multiple of the perturbation on the plus side; the same until `done`.
    ahead : In, 1
        From the next cycle on the forward engine may begin with the offsets that a walk makes: it does not overtake.
        Stays high until the next `start`.
    done : In, 1
        The walk is over, all is written; one cycle.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "start": Out(1),
                "walk": Out(Walk, init=Walk.CLEAR),
                "coefficient": Out(shape(COEFFICIENT)),
                "eps": Out(unsigned(COEFFICIENT.width - 1)),
                "ahead": In(1),
                "done": In(1),
            }
        )


class DeltaMemory(wiring.Component):
    """A row of deltas a word, and a multiplication a number: ``delta + k number`` updates a delta or makes an offset.

    A word takes a cycle, where offsets of both sides are made two, and while those of biases are made `lanes` a side.

    Parameters
    ----------
    mapping : PerturbationMapping
    numbers : Format
        Format of a perturbation's numbers, `PerturbationTable.format`.
    n : int
        Numbers of a word.
    span : int
        Words from one perturbation to the next.
    latency : int
        Cycles from a word of the generator to its numbers.

    Attributes
    ----------
    control : In, `WalkControl`
    word : Out, 1
        A word of the generator is used for the last time in this cycle: it must go on to the next.
    valid : In, 1
        A word of the generator is on offer; walks that need one wait for it.
    replay : Out, 1
        With `word`: return to the mark, as the same perturbation is needed again.
    mark : Out, 1
        With `word`: the next word begins the next perturbation.
    numbers : In, array of n numbers
        The numbers of the word that was on offer `latency` cycles ago.
    offsets : Out, `OffsetRow`
        Offsets of a word.
    load : In stream of beats
        The image of all rows, again and again; always ready, only while no walk is in progress.
    loaded : Out, 1
        An image's last beat is there, for one cycle.
    save : Out stream of beats
        The image of all rows, once after each `begin_save`.
    begin_save : In, 1
        One cycle, only while no walk is in progress.
    saved : Out, 1
        An image's last beat is taken; one cycle.
    written : Out, 1
        A row is updated in this cycle: `written_word`, `written_row`.
    written_word : Out, range(words)
    written_row : Out, array of n deltas
    clipped : Out, range(n + 1)
        Number of offsets that were clipped; late by a few cycles.
    """

    def __init__(self, mapping: PerturbationMapping, numbers: Format, n: int, span: int, latency: int) -> None:
        self.mapping, self.format, self.n, self.span, self.latency = mapping, numbers, n, span, latency
        self.row_beats = -(-n // PER_BEAT)
        self._row = data.ArrayLayout(shape(DELTA), n)
        super().__init__(
            {
                "control": In(WalkControl()),
                **dict.fromkeys(("word", "replay", "mark"), Out(1)),
                "valid": In(1),
                "numbers": In(data.ArrayLayout(shape(numbers), n)),
                "offsets": Out(OffsetRow(mapping.words, n)),
                "load": In(BEATS),
                "loaded": Out(1),
                "save": Out(BEATS),
                "begin_save": In(1),
                "saved": Out(1),
                "written": Out(1),
                "written_word": Out(range(mapping.words)),
                "written_row": Out(self._row),
                "clipped": Out(range(n + 1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        issue, word, side = Signal(), Signal(range(self.mapping.words)), Signal()
        walk = Signal(Walk)
        self._walk(m, issue, word, side, walk)
        self._compute(m, issue, word, side, walk)
        return m

    def _walk(self, m: Module, issue: Signal, word: Signal, side: Signal, walk: Signal) -> None:
        """Issue the words, both sides in turn; a generator that is on its way back to the mark is waited for."""
        mapping, control = self.mapping, self.control
        lanes, bias_words, words = mapping.forward.lanes, mapping.bias_words, mapping.words
        wait, rest = Signal(range(lanes)), Signal(range(self.span - words + 1))
        sides, uses, last_side, last_word = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            sides.eq(walk == Walk.SIDES),
            uses.eq((walk == Walk.SIDES) | (walk == Walk.UPDATE)),
            last_side.eq(side | ~sides),
            last_word.eq(word == words - 1),
        ]
        spare = self.span - words
        over = Signal()
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [word.eq(0), side.eq(0), wait.eq(0), walk.eq(control.walk), rest.eq(spare)]
                with m.If(control.start):
                    m.next = "WORDS"
            with m.State("WORDS"):
                with m.If(wait != 0):
                    m.d.sync += wait.eq(wait - 1)
                with m.Elif(self.valid | ~uses):
                    m.d.comb += [issue.eq(1), self.word.eq(uses & last_side)]
                    m.d.sync += side.eq(sides & ~side)
                    # biases of a word are spread one group a cycle
                    of_biases = walk[1] & ((word < bias_words - 1) | ((word == bias_words - 1) & ~last_side))
                    m.d.sync += wait.eq(Mux(of_biases, lanes - 1, 0))
                    with m.If(last_side):
                        m.d.sync += word.eq(word + 1)
                        with m.If(last_word):
                            m.d.comb += [
                                self.replay.eq(sides),
                                self.mark.eq((walk == Walk.UPDATE) & (spare == 0)),
                                over.eq((walk != Walk.UPDATE) | (spare == 0)),
                            ]
                            m.next = "IDLE"
                            if spare:
                                with m.If(walk == Walk.UPDATE):
                                    m.next = "REST"
            if spare:
                with m.State("REST"), m.If(self.valid):
                    m.d.comb += [self.word.eq(1), self.mark.eq(rest == 1), over.eq(rest == 1)]
                    m.d.sync += rest.eq(rest - 1)
                    with m.If(rest == 1):
                        m.next = "IDLE"
        lead = mapping.lead
        issued = Signal()
        with m.If(control.start):
            m.d.sync += issued.eq(0)
        with m.Elif(issue & last_side & (word == lead - 1)):
            m.d.sync += issued.eq(1)
        depth = self._total_cycles + RoundSaturate.LATENCY
        m.d.comb += [control.done.eq(delayed(m, over, depth, "over"))]
        behind = delayed(m, issued, depth, "issued")
        m.d.comb += control.ahead.eq(behind & issued)

    @property
    def _total_cycles(self) -> int:
        """Cycles from the issue of a word to its sums: numbers, product, sum."""
        return self.latency + 2

    def _compute(self, m: Module, issue: Signal, word: Signal, side: Signal, walk: Signal) -> None:
        """Multiply and add: the sums go back into the memory, or are rounded to offsets."""
        control, late = self.control, self._total_cycles
        # k is beside the numbers
        chosen, factor = Signal(shape(COEFFICIENT)), Signal(shape(COEFFICIENT))
        with m.If(walk == Walk.UPDATE):
            m.d.comb += chosen.eq(control.coefficient)
        with m.Elif(walk == Walk.SIDES):
            m.d.comb += chosen.eq(Mux(side, -control.eps, control.eps))
        m.d.sync += factor.eq(delayed(m, chosen, self.latency - 1, "early_factor"))
        address = delayed(m, word, self.latency, "read_word")
        clear = delayed(m, issue & (walk == Walk.CLEAR), self.latency, "clear")
        store = delayed(m, issue & ~Value.cast(walk)[1], late, "store")
        m.d.comb += [
            self.written.eq(store),
            self.written_word.eq(delayed(m, word, late, "written_word")),
        ]
        found = self._memory(m, address, clear, store)
        clips = []
        # an offset's sum is exact, an update wraps
        exact = signed(DELTA.width + 2)
        for j in range(self.n):
            product = Signal(signed(COEFFICIENT.width + self.format.width), name=f"product{j}")
            total = Signal(exact, name=f"total{j}")
            m.d.sync += [product.eq(self.numbers[j] * factor), total.eq(product + found[j])]
            m.d.comb += self.written_row[j].eq(total[: DELTA.width].as_signed())
            m.submodules[f"rounding{j}"] = rounding = RoundSaturate(
                len(total), DELTA.fraction - Q4_12.fraction, Q4_12
            )
            m.d.comb += [rounding.i.eq(total), self.offsets.numbers[j].eq(rounding.o)]
            clips.append(rounding.clipped)
        made = delayed(m, issue & Value.cast(walk)[1], late + RoundSaturate.LATENCY, "made")
        m.d.comb += [
            self.offsets.valid.eq(made),
            self.offsets.word.eq(delayed(m, word, late + RoundSaturate.LATENCY, "offset_word")),
            self.offsets.side.eq(delayed(m, side, late + RoundSaturate.LATENCY, "offset_side")),
        ]
        bits = [Cat(clip & made, 0).as_signed() for clip in clips]
        bits += [Cat(0, 0).as_signed()] * ((1 << (self.n - 1).bit_length()) - self.n)
        m.d.comb += self.clipped.eq(adder_tree(m, bits, "clipped"))

    def _memory(self, m: Module, address: Value, clear: Value, store: Value) -> list[Value]:
        """A memory for each beat of a row; the deltas at an address, one cycle later, or 0."""
        words = self.mapping.words
        loading, saving = Signal(), Signal()
        load_beat, save_beat = Signal(range(self.row_beats)), Signal(range(self.row_beats))
        load_word, save_word = Signal(range(words)), Signal(range(words))
        m.d.comb += [
            self.load.ready.eq(1),
            loading.eq(self.load.valid),
            self.loaded.eq(loading & (load_beat == self.row_beats - 1) & (load_word == words - 1)),
        ]
        with m.If(loading):
            m.d.sync += load_beat.eq(Mux(load_beat == self.row_beats - 1, 0, load_beat + 1))
            with m.If(load_beat == self.row_beats - 1):
                m.d.sync += load_word.eq(Mux(load_word == words - 1, 0, load_word + 1))
        found: list[Value] = []
        beats = []
        for number in range(self.row_beats):
            count = min(PER_BEAT, self.n - number * PER_BEAT)
            part = memory.Memory(shape=unsigned(32 * count), depth=words, init=[], attrs={"ram_style": "block"})
            m.submodules[f"deltas{number}"] = part
            into, port = part.write_port(), part.read_port(domain="comb")
            row = Cat(self.written_row[number * PER_BEAT + j] for j in range(count))
            m.d.comb += [
                into.en.eq(Mux(loading, load_beat == number, store)),
                into.addr.eq(Mux(loading, load_word, self.written_word)),
                into.data.eq(Mux(loading, self.load.payload[: 32 * count], row)),
                port.addr.eq(Mux(saving, save_word, address)),
            ]
            # a register with a reset: the output latch of block RAM
            read = Signal(32 * count, name=f"read{number}")
            m.d.sync += read.eq(port.data)
            with m.If(clear):
                m.d.sync += read.eq(0)
            found += [read.word_select(j, 32).as_signed() for j in range(count)]
            beats.append(read)
        # saving: a row is read, then its beats are given one after the other
        ready = Signal()
        chosen = Signal(8 * BEAT)
        with m.Switch(save_beat):
            for number, beat in enumerate(beats):
                with m.Case(number):
                    m.d.comb += chosen.eq(beat)
        m.d.comb += [self.save.valid.eq(saving & ready), self.save.payload.eq(chosen)]
        with m.If(self.begin_save):
            m.d.sync += [saving.eq(1), ready.eq(0), save_word.eq(0), save_beat.eq(0)]
        with m.Elif(saving & ~ready):
            m.d.sync += ready.eq(1)
        with m.Elif(self.save.valid & self.save.ready):
            m.d.sync += save_beat.eq(Mux(save_beat == self.row_beats - 1, 0, save_beat + 1))
            with m.If(save_beat == self.row_beats - 1):
                m.d.comb += self.saved.eq(save_word == words - 1)
                m.d.sync += [ready.eq(0), save_word.eq(save_word + 1), saving.eq(save_word != words - 1)]
        return found
