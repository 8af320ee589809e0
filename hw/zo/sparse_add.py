"""RTL of `sparse_add`: corrections by index, through one adder, into a stream of weight lanes."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...golden.fixed import Q4_12
from ...golden.zo.sparse_add import SparseAddSpec
from ..ports import elements, layout, members
from ..primitives.fifo import Fifo
from ..primitives.mux_tree import mux_tree
from ..primitives.rounding import saturate


class Corrections(wiring.Component):
    """Check sparse corrections and relate each to the beat that comes next; one a cycle.

    A beat may use its first correction `spec.lead` cycles after that has entered.

    Attributes
    ----------
    i : In, stream of ``index``, ``value`` (Q4.12), ``last``
        Corrections, as `SparseAdd` has them.
    valid : Out(1)
        There is a next correction, which the outputs below describe. Held until `take`.
    lane : Out(spec.lane_bits)
        Lane of its weight in the beat.
    value : Out(signed(16))
        Its Q4.12 value.
    last : Out(1)
        It is the final one of its packet.
    rising : Out(1)
        Its index is above all before it in its packet; if not, it is out of order.
    here : Out(1)
        It belongs to the beat that comes next, or to one before; if not, to a later one.
    closing : Out(1)
        No other correction belongs to the same beat.
    take : In(1)
        The correction is used or dropped; the next one may be valid in the next cycle.
    skip : In(1)
        The next beat passes without a correction.
    """

    def __init__(self, spec: SparseAddSpec) -> None:
        self.spec = spec
        super().__init__(
            {
                "i": In(stream.Signature(layout(spec.streams()["sparse"]))),
                "lane": Out(spec.lane_bits),
                "value": Out(signed(Q4_12.width)),
                **dict.fromkeys(("valid", "last", "rising", "here", "closing"), Out(1)),
                **dict.fromkeys(("take", "skip"), In(1)),
            }
        )

    def elaborate(self, platform: object) -> Module:
        """Make the FIFO and the register behind it; longer than most, as every flag depends on the same correction."""
        m = Module()
        spec = self.spec
        m.submodules.fifo = fifo = Fifo(layout(spec.streams()["sparse"]), spec.queue)
        wiring.connect(m, wiring.flipped(self.i), fifo.i)
        correction = fifo.o.payload

        # the highest index of the packet so far; behind its last correction one below all, for the next packet
        top = Signal(signed(spec.index_bits + 1), init=-1)
        # beats from the one that is looked at back to that of the highest: below 0 for a later one
        back = Signal(signed(spec.index_bits - spec.lane_bits + 1))
        rises = Signal()
        m.d.comb += [
            back.eq((top >> spec.lane_bits) - correction.index[spec.lane_bits :]),
            rises.eq(correction.index > top),
        ]

        held_valid, free, move, enter = Signal(), Signal(), Signal(), Signal()
        held = Signal.like(correction, reset_less=True)
        away, rising = Signal.like(back, reset_less=True), Signal(reset_less=True)
        m.d.comb += [
            free.eq(~self.valid | self.take),
            # whether a correction closes its beat is known with the next one
            move.eq(held_valid & free & (held.last | fifo.o.valid)),
            fifo.o.ready.eq(~held_valid | move),
            enter.eq(fifo.o.valid & fifo.o.ready),
        ]
        with m.If(enter):
            m.d.sync += [held.eq(correction), rising.eq(rises), away.eq(back)]
        with m.If(enter & correction.last):
            m.d.sync += top.eq(-1)
        with m.Elif(enter & rises):
            m.d.sync += top.eq(correction.index)
        m.d.sync += held_valid.eq(enter | (held_valid & ~move))

        # beats until this one's, counted up to 0; entering counts as one, for the beat that the one before has closed
        count = Signal(signed(len(back) + 1))
        with m.If(free):
            m.d.sync += self.valid.eq(move)
        with m.If(move):
            m.d.sync += [
                self.lane.eq(held.index[: spec.lane_bits]),
                self.value.eq(held.value),
                self.last.eq(held.last),
                self.rising.eq(rising),
                # behind a packet's last one `top` is below everything: closed, whatever waits in the FIFO
                self.closing.eq(back[-1]),
            ]
        with m.If(move | self.skip):
            m.d.sync += count.eq(Mux(move, away, count) + 1)
        m.d.comb += self.here.eq(~count[-1])
        return m


class SparseAdd(wiring.Component):
    """Add sparse corrections to a dense stream of weights, one beat and one correction a cycle.

    The latency is `spec.latency` (2). A beat with k corrections takes max(k, 1) cycles. There is one adder: the lane
    that a correction names is multiplexed to it, and its sum back. All stages wait while the last one is full and not
    taken.
    """

    def __init__(self, spec: SparseAddSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        """Add at most one correction a cycle; longer than most, as all stages wait for the same output."""
        m = Module()
        spec = self.spec
        lanes = spec.streams()["i"].fields[0]
        entering, result = self.i.payload, self.o.payload
        m.submodules.corrections = corrections = Corrections(spec)
        wiring.connect(m, wiring.flipped(self.sparse), corrections.i)

        move, step, due, final = Signal(), Signal(), Signal(), Signal()
        # the packet's last correction is used up; the beat that enters has been here in the cycle before
        used_up, again = Signal(), Signal()
        # the corrections of the packet's last beat are used up; what comes is beyond its end
        beyond = Signal()
        m.d.comb += [
            move.eq(~self.o.valid | self.o.ready),
            step.eq(self.i.valid & move & (used_up | corrections.valid)),
            # those beyond the packet's end leave with its last beat
            due.eq(~used_up & (corrections.here | entering.last)),
            final.eq(
                used_up | (corrections.valid & (~due | Mux(entering.last, corrections.last, corrections.closing)))
            ),
            self.i.ready.eq(move & final),
            corrections.take.eq(step & due),
            corrections.skip.eq(step & ~used_up & ~due),
        ]
        with m.If(step):
            m.d.sync += [
                again.eq(~final),
                used_up.eq(~entering.last & (used_up | (due & corrections.last))),
                beyond.eq(entering.last & ~final & (beyond | corrections.closing | ~corrections.here)),
            ]

        # first register: the beat, and apart from it the sum of the lane that is corrected
        beat = Signal(layout(spec.streams()["i"]), reset_less=True)
        exact, total = Signal(signed(Q4_12.width + 1)), Signal(signed(Q4_12.width), reset_less=True)
        lane = Signal(spec.lane_bits, reset_less=True)
        first, hit, dropped, complete = Signal(), Signal(), Signal(), Signal()
        picked = mux_tree(corrections.lane, elements(entering.weight, lanes)).as_signed()
        m.d.comb += exact.eq(picked + corrections.value)
        good = corrections.here & corrections.rising & ~beyond
        with m.If(move):
            m.d.sync += [
                beat.eq(entering),
                total.eq(saturate(exact, Q4_12.width)),
                lane.eq(corrections.lane),
                first.eq(step & ~again),
                hit.eq(step & due & good),
                dropped.eq(step & due & ~good),
                complete.eq(step & final),
            ]

        # second register: the beat comes with its first correction; each further one replaces its own lane alone
        wrong = Signal()
        pairs = zip(elements(beat.weight, lanes), elements(result.weight, lanes), strict=True)
        for j, (old, new) in enumerate(pairs):
            ours = hit & (lane == j)
            held = Signal(signed(Q4_12.width), name=f"weight_{j}", reset_less=True)
            with m.If(move & (first | ours)):
                m.d.sync += held.eq(Mux(ours, total, old))
            m.d.comb += new.eq(held)
        with m.If(move):
            m.d.sync += [
                self.o.valid.eq(complete),
                result.last.eq(beat.last),
                result.error.eq(beat.last & (wrong | dropped)),
                wrong.eq((wrong | dropped) & ~(beat.last & complete)),
            ]
            if spec.tag:
                m.d.sync += result.tag.eq(beat.tag)
        return m
