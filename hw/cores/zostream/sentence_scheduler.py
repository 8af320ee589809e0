"""Sentence scheduler: reads the order list, and finds the sample of each entry, whose tokens its first beat tells."""

from __future__ import annotations

from enum import IntEnum

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import Out

from ....golden.axi.bus import ADDRESS_BITS, BEAT
from ....golden.zo.memory_layout import LABEL_BIT, WORDS
from ....golden.zo.split import MOST_PERTURBATIONS, MOST_SLOPES
from ...axi.memory_port import beat_number, byte_address
from ...zo.steps.order_list import LABEL_BITS, OrderJob, OrderList, OrderPlace

REPEATS_BITS = (MOST_PERTURBATIONS + MOST_SLOPES).bit_length()
"""Bits of how often a step's sentences are given: for each perturbation of the first part, and for each slope."""


def sentence_layout(tokens: int, address: int = ADDRESS_BITS) -> data.StructLayout:
    """Layout of a sentence.

    Number of the beat of its first row, and of the first one that is kept of it; its tokens, its label, if it is read
    from what is kept, and if it is a step's last.
    """
    beat = address - (BEAT - 1).bit_length()
    places = {"beat": beat, "kept": beat}
    return data.StructLayout({**places, "tokens": range(tokens + 1), "label": LABEL_BITS, "upper": 1, "last": 1})


class SentenceScheduler(OrderList):
    """Give each step, then its sentences, once or several times, one step behind the other.

    An entry takes two reads: of its sample's first beat in the index, and of the number of tokens there.

    Parameters
    ----------
    tokens : int
        Most tokens of a sentence.
    errors : type of IntEnum
        The core's error codes, with those of `OrderList` and ``BAD_TOKENS``.
    address : int
        Bits of a byte address.

    Attributes
    ----------
    job : In, `OrderJob`
        Beside the steps ``index``, the byte address of the index, ``cache``, that of what is kept, ``labels``, how many
        there are, and ``capacity``, tokens of both sides that there is room for. The sentences are those of what is
        kept where ``upper`` is 1, or else all but the first of each ``turns`` times that they are given. Where
        ``pooled`` is 1 such a sentence has one token.
    order_read : Out, `ReadPort`
        Reads of the order list, the index and first beats of samples. Its beats are always taken.
    step, fault
        See `OrderList`. Of ``BAD_TOKENS`` the value is the number of tokens.
    sentence : Out, stream of `sentence_layout`
    """

    def __init__(self, tokens: int, errors: type[IntEnum], address: int = ADDRESS_BITS) -> None:
        further = {
            "index": address,
            "cache": address,
            "labels": LABEL_BITS + 1,
            "capacity": 16,
            "upper": 1,
            "pooled": 1,
        }
        further |= {"turns": MOST_PERTURBATIONS.bit_length(), "repeats": REPEATS_BITS}
        sentence = sentence_layout(tokens, address)
        super().__init__(OrderJob(address, further), errors, address, {}, {"sentence": Out(stream.Signature(sentence))})
        # beat of the index, then the sample's own, and the tokens there
        self._beat = Signal.like(beat_number(self.job.index), name="entry", reset_less=True)
        self._tokens = Signal(32, name="tokens", reset_less=True)
        self._kept = Signal.like(self._beat, name="kept", reset_less=True)
        self._looks = Signal(name="looks")
        # how often the step's sentences were given, up to the turns
        self._turn, self._upper = Signal(range(MOST_PERTURBATIONS + 1), name="turn"), Signal(name="upper")

    def label_limit(self) -> Value:
        """Labels of the program."""
        return self.job.labels

    def begin_samples(self, m: Module, order: OrderPlace) -> None:
        """Give the sentence at hand, and read its entry of the index and its first beat."""
        sentence, read = self.sentence.payload, self.order_read.command.payload
        m.d.sync += self._upper.eq(self.job.upper | (self._turn != 0))
        with m.If(self.job.start):
            m.d.sync += self._turn.eq(0)
        m.d.comb += [
            sentence.kept.eq(self._kept),
            sentence.upper.eq(self._upper),
            read.address.eq(byte_address(Mux(self._looks, self._beat, order.next_beat))),
            sentence.beat.eq(self._beat),
            sentence.tokens.eq(self._tokens),
            sentence.label.eq(order.word[LABEL_BIT:]),
            sentence.last.eq(order.samples_left == 1),
        ]

    def look(self, m: Module, order: OrderPlace) -> None:
        """Find the beat of an entry's index."""
        index = order.word[:LABEL_BIT]
        m.d.sync += self._beat.eq(beat_number(self.job.index) + (index >> (WORDS - 1).bit_length()))

    def take_sample(self, m: Module, order: OrderPlace) -> None:
        """Take a sample's word."""
        self.fail(m, order, order.bad_index, "BAD_INDEX")
        self.fail(m, order, ~order.bad_index & order.bad_label, "BAD_LABEL")
        with m.If(~order.bad_index & ~order.bad_label):
            m.d.sync += self._looks.eq(1)
            m.next = "LOOK"

    def sample_states(self, m: Module, order: OrderPlace) -> None:
        """Read a sample's entry and its first beat, check its tokens, and give the sentence."""
        beats, number = self.order_read.beats, order.word[: (WORDS - 1).bit_length()]
        first = Signal(32)
        m.d.comb += first.eq(beats.payload.word_select(number, 32))
        self._read(m, "LOOK", "ENTRY")
        with m.State("ENTRY"), m.If(beats.valid):
            m.d.sync += self._beat.eq(beat_number(self.job.samples) + first)
            m.next = "HEAD"
        self._read(m, "HEAD", "TOKENS")
        with m.State("TOKENS"), m.If(beats.valid):
            m.d.sync += [
                self._tokens.eq(Mux(self._upper & self.job.pooled, 1, beats.payload[:32])),
                self._kept.eq(beat_number(self.job.cache) + beats.payload[32:64]),
                self._beat.eq(self._beat + 1),
                self._looks.eq(0),
            ]
            m.next = "JUDGE"
        wrong = Signal()
        m.d.sync += wrong.eq((self._tokens == 0) | (Cat(0, self._tokens) > self.job.capacity))
        with m.State("JUDGE"):
            m.next = "GIVE"
        with m.State("GIVE"):
            m.d.comb += self.sentence.valid.eq(~wrong)
            with m.If(wrong & ~self.fault.failed):
                m.d.sync += [self.fault.failed.eq(1), self.fault.error.eq(self.errors["BAD_TOKENS"])]
                m.d.sync += order.failed.eq(self._tokens)
            with m.If(~wrong & self.sentence.ready):
                m.d.sync += order.samples_left.eq(order.samples_left - 1)
                with m.If(order.samples_left == 1):
                    m.d.sync += self._turn.eq(Mux(self._turn == self.job.turns - 1, 0, self._turn + 1))
                m.next = "MOVE"

    def _read(self, m: Module, state: str, following: str) -> None:
        """Read the beat at hand."""
        command = self.order_read.command
        with m.State(state):
            m.d.sync += command.valid.eq(~(command.valid & command.ready))
            with m.If(command.valid & command.ready):
                m.next = following
