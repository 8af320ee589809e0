"""Sentence scheduler: reads the sample schedule, and each sample's address and length."""

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
"""Bits of the number of times that a step's sentences are issued: for each perturbation of the first part and each
projected gradient."""


def sentence_layout(tokens: int, address: int = ADDRESS_BITS) -> data.StructLayout:
    """Layout of a sentence.

    ``beat`` and ``kept`` are the beat numbers of its first row in the samples and in the cache of the cut. With
    ``upper`` its rows are read from the cache; ``last`` marks a step's last sentence.
    """
    beat = address - (BEAT - 1).bit_length()
    places = {"beat": beat, "kept": beat}
    return data.StructLayout({**places, "tokens": range(tokens + 1), "label": LABEL_BITS, "upper": 1, "last": 1})


class SentenceScheduler(OrderList):
    """Issues each step, then its sentences, once or several times.

    Each entry of the sample schedule takes two further reads: the sample's first beat from the index, and its number of
    tokens from this beat.

    Parameters
    ----------
    tokens : int
        Most tokens of a sentence.
    errors : type of IntEnum
        Error codes of the core: the codes of `OrderList`, and ``BAD_TOKENS``.
    address : int
        Bits of a byte address.

    Attributes
    ----------
    job : In, `OrderJob`
        Further members: ``index`` and ``cache``, byte addresses of the index and of the cache of the cut; ``labels``,
        the number of labels; ``capacity``, most tokens of both sides. Sentences are read from the cache if ``upper`` is
        1, or else in all but the first of each ``turns`` repetitions. With ``pooled`` a sentence in the cache has one
        token.
    order_read : Out, `ReadPort`
        Reads of the sample schedule, the index and first beats of samples; its beats are always taken.
    step, fault
        See `OrderList`. With ``BAD_TOKENS`` the value is the number of tokens.
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
        # beat of the index, then of the sample; number of tokens
        self._beat = Signal.like(beat_number(self.job.index), name="entry", reset_less=True)
        self._tokens = Signal(32, name="tokens", reset_less=True)
        self._kept = Signal.like(self._beat, name="kept", reset_less=True)
        self._looks = Signal(name="looks")
        # repetitions of the step's sentences, up to the job's turns
        self._turn, self._upper = Signal(range(MOST_PERTURBATIONS + 1), name="turn"), Signal(name="upper")

    def label_limit(self) -> Value:
        """Labels of the program."""
        return self.job.labels

    def begin_samples(self, m: Module, order: OrderPlace) -> None:
        """Drive the sentence and the address of the next read."""
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
        """Compute the beat of an entry in the index."""
        index = order.word[:LABEL_BIT]
        m.d.sync += self._beat.eq(beat_number(self.job.index) + (index >> (WORDS - 1).bit_length()))

    def take_sample(self, m: Module, order: OrderPlace) -> None:
        """Check an entry's sample and label."""
        self.fail(m, order, order.bad_index, "BAD_INDEX")
        self.fail(m, order, ~order.bad_index & order.bad_label, "BAD_LABEL")
        with m.If(~order.bad_index & ~order.bad_label):
            m.d.sync += self._looks.eq(1)
            m.next = "LOOK"

    def sample_states(self, m: Module, order: OrderPlace) -> None:
        """States that read a sample's index entry and first beat, check its tokens, and issue the sentence."""
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
        """State that reads the beat at the present address."""
        command = self.order_read.command
        with m.State(state):
            m.d.sync += command.valid.eq(~(command.valid & command.ready))
            with m.If(command.valid & command.ready):
                m.next = following
