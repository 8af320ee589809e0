"""RTL of `sparse_add`: one adder adds indexed corrections to a stream of weight beats."""

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
    """Check a sparse correction a cycle, and compare its beat with the next beat to come.

    A correction may be used `spec.lead` cycles after its entry.

    Attributes
    ----------
    i : In, stream of ``index``, ``value`` (Q4.12), ``last``
        Corrections of `SparseAdd`.
    valid : Out(1)
        The next outputs describe a correction; all are stable until `take`.
    lane : Out(spec.lane_bits)
        Lane of the corrected weight in the beat.
    value : Out(signed(16))
        Q4.12 value of the correction.
    last : Out(1)
        The correction is the last of its packet.
    rising : Out(1)
        The index exceeds all earlier indices of the packet; if low, the correction is out of order.
    here : Out(1)
        The correction belongs to the next beat or an earlier one; if low, to a later beat.
    closing : Out(1)
        The next correction belongs to a later beat.
    take : In(1)
        The correction is used or dropped. The next correction can be valid in the next cycle.
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
        """Build the FIFO and its output register.

        Longer than most functions, as every flag depends on the same correction.
        """
        m = Module()
        spec = self.spec
        m.submodules.fifo = fifo = Fifo(layout(spec.streams()["sparse"]), spec.queue)
        wiring.connect(m, wiring.flipped(self.i), fifo.i)
        correction = fifo.o.payload

        # highest index so far in the packet; -1 between packets
        top = Signal(signed(spec.index_bits + 1), init=-1)
        # beat of the highest index minus the correction's beat: negative if the correction begins a later beat
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
            # wait for the next correction: it tells whether this correction closes its beat
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

        # counts up to 0: minus the number of beats until the correction's beat; plus 1 on entry for the beat just
        # closed
        count = Signal(signed(len(back) + 1))
        with m.If(free):
            m.d.sync += self.valid.eq(move)
        with m.If(move):
            m.d.sync += [
                self.lane.eq(held.index[: spec.lane_bits]),
                self.value.eq(held.value),
                self.last.eq(held.last),
                self.rising.eq(rising),
                # after a packet's last correction `top` is -1, so this flag is high for any output of the FIFO
                self.closing.eq(back[-1]),
            ]
        with m.If(move | self.skip):
            m.d.sync += count.eq(Mux(move, away, count) + 1)
        m.d.comb += self.here.eq(~count[-1])
        return m


class SparseAdd(wiring.Component):
    """Add sparse corrections to a dense stream of weights: a beat and a correction a cycle.

    The latency is `spec.latency` (2). A beat with k corrections takes max(k, 1) cycles. All lanes share one adder. All
    stages stall while the last stage is full and not accepted.
    """

    def __init__(self, spec: SparseAddSpec) -> None:
        self.spec = spec
        super().__init__(members(spec))

    def elaborate(self, platform: object) -> Module:
        """Build the RTL; longer than most functions, as all stages share the output's handshake."""
        m = Module()
        spec = self.spec
        lanes = spec.streams()["i"].fields[0]
        entering, result = self.i.payload, self.o.payload
        m.submodules.corrections = corrections = Corrections(spec)
        wiring.connect(m, wiring.flipped(self.sparse), corrections.i)

        move, step, due, final = Signal(), Signal(), Signal(), Signal()
        # `used_up`: no corrections of the packet remain; `again`: the entering beat had a correction one cycle ago
        used_up, again = Signal(), Signal()
        # the remaining corrections lie beyond the packet's last beat
        beyond = Signal()
        m.d.comb += [
            move.eq(~self.o.valid | self.o.ready),
            step.eq(self.i.valid & move & (used_up | corrections.valid)),
            # the last beat also takes, and drops, corrections beyond the packet's end
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

        # first stage: the beat, and apart from it the corrected lane's sum
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

        # second stage: the whole beat loads with its first correction; each further correction replaces one lane
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
