"""Sequencer of the forward engine: address generator of the stages' loops."""

from collections.abc import Callable

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Member, Out

from ...golden.fixed import Q8_16
from ...golden.nn.array.mapping import Mapping
from ..primitives.pipeline import delayed
from .interfaces import StageFunction, WordIssue, activation_address
from .loops import Loops


class Sequencer(wiring.Component):
    """Issue a word a cycle, stage by stage; a stage starts when the preceding outputs are written.

    Parameters
    ----------
    mapping : Mapping
    drain : int
        Count-down after a stage's last word: `golden.nn.array.latency.drain_cycles`, and cycles of further parts.

    Attributes
    ----------
    start : In, 1
        Run all stages on a sample; only while idle.
    buffer : In, 1
        Sample buffer in the activation memory; constant until `done`.
    done : Out, 1
        One-cycle pulse: the last stage is complete; `start` may follow in the next cycle.
    full : In, a bit for each stage and side, as `StageOutputs`
        Outputs of the preceding sample are unread: the stage waits.
    filled : Out, the same bits
        One-cycle pulse: the stage is complete.
    word : Out, `WordIssue`
        Issued word.
    relu : Out, 1
        Clip outputs at 0; constant while a stage runs.
    function : Out, `StageFunction`
        Other functions of the stage.
    cells : Out, range(output_depth), only where a stage has sums in parts
        Outputs of a channel; as `relu`.
    begin : Out, 1
        One-cycle pulse before a stage's first word.
    output : Out, range(output_depth)
        First address of the stage in the output memory, in the cycle of `begin`.
    """

    def __init__(self, mapping: Mapping, drain: int) -> None:
        self.mapping, self.drain = mapping, drain
        stages = len(mapping.stages)
        self._has_parts = mapping.most_parts > 1
        # groups of an outermost iteration, and the distance of their outputs; parts not rounded yet
        self._groups = Signal(range(mapping.most_parts + 1), name="turn_groups")
        self._skip = Signal(range(mapping.output_depth + 1), name="skip")
        self._parts_left = Signal(range(mapping.most_parts + 1), name="stage_parts_left")
        # with a residual: addresses of the window's word and of the addend
        self._adds = mapping.has_residuals
        self._window, self._added = (
            Signal(activation_address(mapping), name=name, reset_less=True) for name in ("window", "added")
        )
        ports = {
            "start": In(1),
            "buffer": In(1),
            "done": Out(1),
            "full": In(stages * mapping.sides),
            "filled": Out(stages * mapping.sides),
            "word": Out(WordIssue(mapping)),
            "relu": Out(1),
            "function": Out(StageFunction(mapping)),
            "begin": Out(1),
            "output": Out(range(mapping.output_depth)),
        }
        if self._has_parts:
            ports["cells"] = Out(range(mapping.output_depth + 1))
        super().__init__(ports | self._ports())

    def _ports(self) -> dict[str, Member]:
        """Ports of a subclass."""
        return {}

    def elaborate(self, platform: object) -> Module:
        m = Module()
        loops, group = Loops(self.mapping), Signal.like(self.word.weight, reset_less=True)
        last_mask = Signal(self.mapping.most_parts * self.mapping.columns, reset_less=True)
        running = Signal()
        # a register a field: synthesis removes unused fields
        control = {
            name: Signal(part.shape, name=f"pool_{name}", reset_less=True) for name, part in self.word.pool.shape()
        }
        m.d.comb += [self.word.pool[name].eq(part) for name, part in control.items()]

        def load(m: Module, stage: Signal, side: Value | int) -> None:
            with m.Switch(stage):
                for number, stage_mapping in enumerate(self.mapping.stages):
                    with m.Case(number):
                        loops.load(m, stage_mapping)
                        self._load(m, number, side, group, last_mask, control)

        self._run(m, loops, load, running)
        self._issue(m, running, loops, group, last_mask, control)
        return m

    def _run(
        self, m: Module, loops: Loops, load: Callable[[Module, Signal, Value | int], None], running: Signal
    ) -> None:
        """State machine of the stages."""
        stages = range(len(self.mapping.stages))
        stage, ready = Signal(stages), Signal()
        pause = Signal(range(self.drain + 1))
        with m.Switch(stage):
            for number in stages:
                with m.Case(number):
                    m.d.comb += ready.eq(~self.full[number])
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.sync += stage.eq(0)
                with m.If(self.start):
                    m.next = "WAIT"
            with m.State("WAIT"), m.If(ready):
                m.next = "BEGIN"
            self._begin(m, loops, lambda: load(m, stage, 0))
            with m.State("RUN"):
                m.d.comb += running.eq(1)
                loops.step(m)
                with m.If(loops.over):
                    m.d.sync += pause.eq(self.drain)
                    m.next = "DRAIN"
            with m.State("DRAIN"):
                m.d.sync += pause.eq(pause - 1)
                with m.If(pause == 0):
                    with m.Switch(stage):
                        for number in stages:
                            with m.Case(number):
                                m.d.comb += self.filled[number].eq(1)
                    m.d.sync += stage.eq(stage + 1)
                    with m.If(stage == stages[-1]):
                        m.d.comb += self.done.eq(1)
                        m.d.sync += stage.eq(0)
                        m.next = "IDLE"
                    with m.Else():
                        m.next = "WAIT"
        m.d.sync += self.begin.eq(fsm.ongoing("BEGIN"))

    def _begin(self, m: Module, loops: Loops, load: Callable[[], None]) -> None:
        """Add the states from a stage's start to its first word."""
        with m.State("BEGIN"):
            load()
            m.next = "FIRST"
        with m.State("FIRST"):
            loops.restart(m)
            m.next = "RUN"

    def _load(
        self, m: Module, number: int, side: Value | int, group: Signal, last_mask: Signal, control: dict[str, Signal]
    ) -> None:
        """Set addresses and flags of a stage; each perturbation sign has its own output regions."""
        stage, columns = self.mapping.stages[number], self.mapping.columns
        wide = stage.parts * columns
        idle = stage.weight_groups * wide - stage.channels * (2 if stage.spread else 1)
        description = self.mapping.network_stages[number]
        self._load_side(m, number, side)
        if stage.residual is not None and description.residual is not None:
            m.d.sync += self._added.eq(self._region(stage.residual.base, description.residual[0], side))
        if self._has_parts:
            skip = 1 + (stage.parts - 1) * stage.cells
            m.d.sync += [self._groups.eq(stage.parts), self._skip.eq(skip), self.cells.eq(stage.cells)]
            m.d.sync += control["position"].eq(stage.output)
        if self.mapping.has_limits:
            m.d.sync += self.function.limit.eq(Q8_16.maximum if stage.limit is None else stage.limit)
        for unit in self.mapping.units:
            m.d.sync += getattr(self.function, unit.kind).eq(unit.choice(description.activation))
        if self.mapping.has_merged_pixels:
            m.d.sync += self.function.merged.eq(stage.merged)
        if len(self.mapping.pooled_parts) > 1 and stage.pooled:
            m.d.sync += self.function.pooled_parts.eq(self.mapping.pooled_parts.index(stage.parts))
        if self.mapping.averages:
            counts = [0, *(division.count for division in self.mapping.averages)]
            m.d.sync += self.function.divisor.eq(counts.index(stage.average))
        m.d.sync += [
            last_mask.eq(((1 << wide) - 1) >> idle),
            group.eq(stage.weights),
            self.word.weight.eq(stage.weights),
            self.word.bias.eq(stage.biases),
            (self._window if self._adds else self.word.address).eq(
                self._region(stage.base, description.source[0], side)
            ),
            control["target"].eq(self._of_side(stage.target, side)),
            self.output.eq(stage.output),
            self.relu.eq(stage.relu),
        ]

    def _region(self, address: int, tensor: int, side: Value | int) -> Value | int:
        """Address in a tensor's region, of the sample's buffer or the outputs' perturbation sign."""
        if tensor < 0:
            return Mux(self.buffer, address + self.mapping.sample_values, address)
        return self._of_side(address, side)

    def _of_side(self, address: int, side: Value | int) -> Value | int:
        """Address in the output regions of a perturbation sign."""
        return address

    def _load_side(self, m: Module, number: int, side: Value | int) -> None:
        """Set registers that depend on the perturbation sign."""

    def _issue_side(self, m: Module, loops: Loops) -> None:
        """Issue flags that depend on the perturbation sign."""

    def _issue_residual(self, m: Module, loops: Loops, chosen: Value) -> None:
        """Issue the residual's word, with an address step a sum."""
        m.d.sync += self.word.residual.eq(loops.adding)
        m.d.comb += self.word.address.eq(Mux(self.word.residual, self._added, self._window))
        jump = Signal.like(self.word.address, name="residual_jump")
        for j, step in enumerate(loops.residual_jumps, start=loops.inner):
            with m.If(chosen == j):
                m.d.comb += jump.eq(step)
        with m.If(self.word.enable & ~self.word.residual):
            m.d.sync += self._added.eq(self._added + jump)

    def _issue(
        self,
        m: Module,
        running: Signal,
        loops: Loops,
        group: Signal,
        last_mask: Signal,
        control: dict[str, Signal],
    ) -> None:
        """Issue a word's flags and addresses, one register behind the loops."""
        count = loops.count
        level = Signal(range(count))
        for j in reversed(range(count)):
            with m.If(~loops.ends[j]):
                m.d.comb += level.eq(j)
        chosen = delayed(m, level, 1, "level", reset_less=True)
        # end of a map: other channels follow
        outermost = chosen >= loops.map if count > loops.map + 1 else chosen == loops.map
        pool = slice(loops.inner, loops.pool)
        m.d.sync += [
            self.word.enable.eq(running & ~loops.waiting if self._has_parts else running),
            self.word.first.eq(loops.first),
            self.word.last.eq(loops.last),
            control["first"].eq(loops.begins[pool].all()),
            control["last"].eq(loops.ends[pool].all()),
        ]
        mask = Mux(loops.ends[loops.map], last_mask, (1 << len(last_mask)) - 1)
        m.d.sync += control["mask"].eq(mask)
        if self.mapping.has_padded_pools:
            m.d.sync += control["inside"].eq(~loops.outside)
        if self._has_parts:
            m.d.sync += control["more"].eq(mask >> self.mapping.columns)
        if self.mapping.has_within:
            m.d.sync += self.word.within.eq(loops.within)
        if self.mapping.has_halves:
            m.d.sync += self.word.halved.eq(loops.halved)
        self._issue_side(m, loops)
        moves, address = self.word.enable, self.word.address
        if loops.has_residual:
            self._issue_residual(m, loops, chosen)
            moves, address = self.word.enable & ~self.word.residual, self._window
        jump, move = Signal.like(self.word.address), Signal.like(self.word.address)
        for j in range(count):
            with m.If(chosen == j):
                m.d.comb += jump.eq(loops.jumps[j])
                if j >= loops.pool:
                    m.d.comb += move.eq(loops.moves[j - loops.pool])
        with m.If(moves):
            m.d.sync += [address.eq(address + jump), control["target"].eq(control["target"] + move)]
            with m.If((chosen < loops.inner) | outermost):
                m.d.sync += self.word.weight.eq(self.word.weight + 1)
            with m.Else():
                m.d.sync += self.word.weight.eq(group)
            with m.If(outermost):
                following = self.word.bias + (self._groups if self._has_parts else 1)
                m.d.sync += [group.eq(self.word.weight + 1), self.word.bias.eq(following)]
            if self._has_parts:
                with m.If(chosen >= loops.pool):
                    skip = Mux(outermost, self._skip, 1)
                    m.d.sync += control["position"].eq(control["position"] + skip)
