"""Alternating sequencer of the forward engine: both perturbation signs in turn, stage by stage."""

from collections.abc import Callable

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib.wiring import In, Member, Out

from ...golden.nn.array.copies import copies, copy_of, segments, tail_lanes
from ..primitives.pipeline import delayed
from .loops import Loops
from .sequencer import Sequencer


class AlternatingSequencer(Sequencer):
    """Issue a word a cycle of a range of stages, for one perturbation sign or alternately for both.

    Words of one sign are issued while outputs of the other are written. The next sample may follow the last word, so
    that output control is pipelined with the words.

    Parameters
    ----------
    mapping : Mapping
        With ``sides=2``.
    drain : int
        As for `Sequencer`.

    Attributes
    ----------
    done : Out, 1
        One-cycle pulse: the last stage is complete for all signs.
    full : In, a bit for each stage and side
        As for `Sequencer`.
    filled : Out, the same bits
        One-cycle pulse: the last stage of a pass is complete.
    first_stage, last_stage : In, range(stages)
        Stages to run; constant until `done`.
    both : In, 1
        Run both signs, not only the first; constant until `done`.
    issued : Out, 1
        One-cycle pulse: all words of a sample are issued; `start` may come in the same cycle or later.
    consumed : Out, 1
        One-cycle pulse a sign: the last word that reads the pass's input is issued.
    final : Out, 1
        The stage is `last_stage`, in the cycle of `begin`.
    side : Out, 1
        Perturbation sign of the word, with `enable`, and of the stage, with `begin`.
    tail : Out, 1
        The word is the last of a run, with `enable`.
    tail_lanes : Out, a bit for each lane and segment of columns
        Lanes with a weight in such a word, from `begin` to the next `begin`, by `golden.nn.array.copies.segments`; with
        offsets, parameters of other lanes are not 0.
    copy : Out, range(copies + 1), only where a stage's words are of two pixels
        Index from 1 of the stage's distance in `golden.nn.array.copies.copies`, 0 for none; as `tail_lanes`.
    """

    def _ports(self) -> dict[str, Member]:
        self._copies = copies(self.mapping)
        return {
            **dict.fromkeys(("first_stage", "last_stage"), In(range(len(self.mapping.stages)))),
            "both": In(1),
            **dict.fromkeys(("issued", "consumed", "final", "side", "tail"), Out(1)),
            "tail_lanes": Out(self.mapping.lanes * len(segments(self.mapping))),
            **({"copy": Out(range(len(self._copies) + 1))} if self._copies else {}),
        }

    def _of_side(self, address: int, side: Value | int) -> Value | int:
        """Address in the output regions of a perturbation sign."""
        return Mux(side, address + self.mapping.side_values, address)

    def _load_side(self, m: Module, number: int, side: Value | int) -> None:
        """Set the sign of a stage's words, and the lanes of the last words of its runs."""
        lanes = sum(used << at * self.mapping.lanes for at, used in enumerate(tail_lanes(self.mapping, number)))
        m.d.sync += [self.side.eq(side), self.tail_lanes.eq(lanes)]
        if self._copies:
            own = copy_of(self.mapping, number)
            m.d.sync += self.copy.eq(1 + self._copies.index(own) if own else 0)

    def _issue_side(self, m: Module, loops: Loops) -> None:
        """Issue `tail`."""
        m.d.sync += self.tail.eq(loops.ends[0])

    def _run(
        self, m: Module, loops: Loops, load: Callable[[Module, Signal, Value | int], None], running: Signal
    ) -> None:
        """State machine: each stage for both signs; a sign waits for its outputs of the preceding stage."""
        stages = range(len(self.mapping.stages))
        stage, side = Signal(stages), Signal()
        # a sample's first stage reads no outputs; a pass of one stage waits until preceding outputs are readable
        several, leading, room = Signal(), Signal(), Signal()
        ended, over, waits = Signal(), Signal(), Signal(2)
        written, readable = Signal(), Signal()
        m.d.sync += several.eq(self.first_stage != self.last_stage)
        with m.Switch(Cat(side, stage)):
            for number in range(len(self.full)):
                with m.Case(number):
                    m.d.comb += room.eq(~self.full[number])
        for index in range(2):
            left, drained = Signal(range(self.drain + 1), name=f"left{index}"), Signal(name=f"drained{index}")
            with m.If(ended & (side == index)):
                m.d.sync += [waits[index].eq(1), left.eq(self.drain)]
            with m.Elif(waits[index]):
                m.d.sync += [left.eq(left - 1), waits[index].eq(left != 0)]
            m.d.sync += drained.eq(~waits[index])
            with m.If(side == index):
                m.d.comb += [written.eq(~waits[index]), readable.eq(drained & ~waits[index])]
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.sync += [stage.eq(self.first_stage), side.eq(0), leading.eq(1)]
                with m.If(self.start):
                    m.next = "WAIT"
            settled: Value = Mux(leading, several | readable, written)
            if self._has_parts:
                left = self._parts_left
                m.d.sync += left.eq(Mux(ended, loops.parts, left - left.any()))
                settled &= ~left.any()
            with m.State("WAIT"), m.If(room & settled):
                m.next = "BEGIN"
            self._begin(m, loops, lambda: load(m, stage, side))
            with m.State("RUN"):
                m.d.comb += running.eq(1)
                loops.step(m)
                with m.If(loops.over):
                    m.d.comb += ended.eq(1)
                    m.next = "WAIT"
                    with m.If(self.both & ~side):
                        m.d.sync += side.eq(1)
                    with m.Else():
                        m.d.sync += [side.eq(0), stage.eq(stage + 1), leading.eq(0)]
                        with m.If(stage == self.last_stage):
                            m.d.comb += over.eq(1)
                            m.next = "IDLE"
        final = stage == self.last_stage
        m.d.sync += [
            self.begin.eq(fsm.ongoing("BEGIN")),
            self.final.eq(final),
            self.issued.eq(over),
            self.consumed.eq(ended & self._consuming(m, stage, leading)),
        ]
        m.d.comb += self.done.eq(delayed(m, over, 1 + self.drain, "over"))
        for index in range(2):
            filled = delayed(m, ended & final & (side == index), 1 + self.drain, f"filled{index}")
            with m.Switch(self.last_stage):
                for number in stages:
                    with m.Case(number):
                        m.d.comb += self.filled[2 * number + index].eq(filled)

    def _consuming(self, m: Module, stage: Signal, leading: Value) -> Value:
        """Whether the stage is the last reader of the pass's input."""
        stages = list(enumerate(self.mapping.network_stages))
        readers = {
            first: max((number for number, reader in stages if first - 1 in reader.reads), default=first)
            for first, _ in stages
        }
        if all(first == last for first, last in readers.items()):
            return leading
        consuming = Signal()
        with m.Switch(self.first_stage):
            for first, last in readers.items():
                with m.Case(first):
                    m.d.comb += consuming.eq(stage == last)
        return consuming
