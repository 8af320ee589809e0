"""Overlapping sequencer of the forward engine: a stage begins before the preceding outputs are all written."""

from collections.abc import Callable

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib.wiring import Member, Out

from ....golden.nn.array.mapping import Mapping
from ...primitives.pipeline import delayed
from ..loops import Loops
from ..sequencer import Sequencer


class OverlappingSequencer(Sequencer):
    """Issue a word a cycle, stage by stage, with `golden.nn.array.pauses.stage_pauses` between stages.

    The next sample may follow the last word, so that output control is pipelined with the words.

    Parameters
    ----------
    mapping : Mapping
        Several stages, ``sides=1``.
    drain : int
        As for `Sequencer`.
    pauses : tuple of int
        Wait of each stage in cycles.

    Attributes
    ----------
    done : Out, 1
        One-cycle pulse: the last stage is complete.
    consumed : Out, 1
        One-cycle pulse: the last word that reads the sample is issued.
    issued : Out, 1
        One-cycle pulse: all words of a sample are issued; `start` may follow from the next cycle.
    """

    def __init__(self, mapping: Mapping, drain: int, pauses: tuple[int, ...]) -> None:
        self._pauses = pauses
        super().__init__(mapping, drain)

    def _ports(self) -> dict[str, Member]:
        return dict.fromkeys(("consumed", "issued"), Out(1))

    def _run(
        self, m: Module, loops: Loops, load: Callable[[Module, Signal, Value | int], None], running: Signal
    ) -> None:
        """State machine of the stages."""
        count = len(self.mapping.stages)
        last_reader = max(number for number, own in enumerate(self.mapping.network_stages) if -1 in own.reads)
        stage, ready, ended = Signal(range(count)), Signal(), Signal()
        # remaining wait, and wait of the stage after the present one
        pause, following = Signal(range(max(self._pauses) + 1)), Signal(range(max(self._pauses) + 1))
        with m.Switch(stage):
            for number in range(count):
                with m.Case(number):
                    m.d.comb += [ready.eq(~self.full[number]), following.eq(self._pauses[(number + 1) % count])]
        m.d.sync += pause.eq(Mux(ended, following, pause - pause.any()))
        with m.FSM() as fsm:
            with m.State("IDLE"), m.If(self.start):
                m.next = "WAIT"
            with m.State("WAIT"), m.If(ready & ~pause.any()):
                m.next = "BEGIN"
            self._begin(m, loops, lambda: load(m, stage, 0))
            with m.State("RUN"):
                m.d.comb += running.eq(1)
                loops.step(m)
                with m.If(loops.over):
                    m.d.comb += [ended.eq(1), self.consumed.eq(stage == last_reader)]
                    m.d.sync += stage.eq(stage + 1)
                    m.next = "WAIT"
                    with m.If(stage == count - 1):
                        m.d.comb += self.issued.eq(1)
                        m.d.sync += stage.eq(0)
                        m.next = "IDLE"
        m.d.sync += self.begin.eq(fsm.ongoing("BEGIN"))
        self._complete(m, ended)

    def _complete(self, m: Module, ended: Signal) -> None:
        """Pulse `filled` and `done`, in order of the stages."""
        count = len(self.mapping.stages)
        stage, complete = Signal(range(count), name="complete_stage"), delayed(m, ended, 1 + self.drain, "ended")
        with m.If(complete):
            m.d.sync += stage.eq(stage + 1)
            with m.Switch(stage):
                for number in range(count):
                    with m.Case(number):
                        m.d.comb += self.filled[number].eq(1)
            with m.If(stage == count - 1):
                m.d.sync += stage.eq(0)
                m.d.comb += self.done.eq(1)
