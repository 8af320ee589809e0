"""Sequencer of the forward engine: the address generator that walks the loops of the frozen network's stages."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...golden.nn.mapping import Mapping, StageMapping
from ..primitives.pipeline import delayed
from .interfaces import PoolControl, activation_address


class Loops:
    """Registers of the running stage: turns, steps and flags of its loops, innermost first.

    Parameters
    ----------
    mapping : Mapping

    Attributes
    ----------
    counters, limits : list of Signal
        Turns left of each loop; turns of each loop less one.
    begins, ends, single : Signal
        A bit for each loop: it is in its first turn, in its last turn; it has a single turn.
    jumps : list of Signal
        Step of the activation memory's address when this loop is the innermost one that has not ended.
    moves : list of Signal
        Step of the output's address for the three outermost loops.
    """

    COUNT = 7
    INNER = 2
    """Loops within a sum: runs of lanes, rows of the kernel."""
    POOL = 4
    """Loops within a pool: those of a sum, and the pool's columns and rows."""

    def __init__(self, mapping: Mapping) -> None:
        address = activation_address(mapping)
        turns = [max(stage.loops[j].count for stage in mapping.stages) for j in range(self.COUNT)]
        self.counters = [Signal(range(most), name=f"counter{j}") for j, most in enumerate(turns)]
        self.limits = [Signal(range(most), name=f"limit{j}") for j, most in enumerate(turns)]
        self.begins, self.ends, self.single = (Signal(self.COUNT, name=name) for name in ("begins", "ends", "single"))
        self.jumps = [Signal(address, name=f"jump{j}") for j in range(self.COUNT)]
        self.moves = [Signal(address, name=f"move{j}") for j in range(self.COUNT - self.POOL)]

    def load(self, m: Module, stage: StageMapping) -> None:
        """Set the registers for a stage, in the module's current condition."""
        counts = [loop.count for loop in stage.loops]
        strides = [loop.stride for loop in stage.loops]
        spans = [sum((counts[i] - 1) * strides[i] for i in range(j)) for j in range(self.COUNT)]
        x, y, group = stage.targets
        columns, rows = counts[4] - 1, counts[5] - 1
        targets = (x, y - columns * x, group - columns * x - rows * y)
        m.d.sync += [
            *(limit.eq(count - 1) for limit, count in zip(self.limits, counts, strict=True)),
            self.single.eq(sum((count == 1) << j for j, count in enumerate(counts))),
            *(jump.eq(stride - span) for jump, stride, span in zip(self.jumps, strides, spans, strict=True)),
            *(move.eq(step) for move, step in zip(self.moves, targets, strict=True)),
        ]

    def restart(self, m: Module) -> None:
        """Begin all loops, in the module's current condition."""
        m.d.sync += [counter.eq(limit) for counter, limit in zip(self.counters, self.limits, strict=True)]
        m.d.sync += [self.begins.eq(~0), self.ends.eq(self.single)]

    def step(self, m: Module) -> None:
        """Take the next turn, in the module's current condition: whether a loop begins or ends is a register."""
        for j, counter in enumerate(self.counters):
            with m.If(self.ends[: j + 1].all()):
                m.d.sync += [counter.eq(self.limits[j]), self.begins[j].eq(1), self.ends[j].eq(self.single[j])]
            with m.Elif(self.ends[:j].all()):
                m.d.sync += [counter.eq(counter - 1), self.begins[j].eq(0), self.ends[j].eq(counter == 1)]


class Sequencer(wiring.Component):
    """Issue one word a cycle; between stages wait until their outputs are written.

    With `partial`, a pass of several stages may follow before the outputs of the last one are written: its first stage
    does not read them. Control of the outputs then has to travel with the words.

    Parameters
    ----------
    mapping : Mapping
    drain : int
        Cycles to count down behind a stage's last word: `golden.nn.latency.drain_cycles`.
    partial : bool
        Run a range of the stages, and say which lanes of a word have an input; where all parameters beyond them are 0,
        nothing needs to know.

    Attributes
    ----------
    start : In, 1
        Run all stages on a sample; only while none is run.
    first_stage, last_stage : In, range(stages), only with `partial`
        Stages to run; stay the same until `done`.
    buffer : In, 1
        Buffer of the activation memory in which the sample is; stays the same until `done`.
    done : Out, 1
        The last stage is complete, for one cycle; `start` may come in the cycle after.
    issued : Out, 1, only with `partial`
        All words of a pass were issued, for one cycle; `start` may come in the same cycle or later.
    full : In, a bit for each stage
        Outputs of the sample before are still to be read: the stage waits.
    filled : Out, a bit for each stage
        The stage is complete, for one cycle.
    enable : Out, 1
        A word is issued.
    address : Out, `activation_address`
        Of the word's activations, in the cycle of `enable`.
    weight : Out, range(weight_words)
        Of the word's weights, in the cycle of `enable`.
    bias : Out, range(groups)
        Of the biases, in the cycle of `enable`.
    first, last : Out, 1
        First, last word of a sum, in the cycle of `enable`.
    pool : Out, `PoolControl`
        Of the sum to which the word belongs, in the cycle of `enable`.
    relu : Out, 1
        Negative outputs of the stage become 0; stays the same while the stage runs.
    begin : Out, 1
        A stage begins, for one cycle, before its first word.
    final : Out, 1, only with `partial`
        The stage is `last_stage`, in the cycle of `begin`.
    output : Out, range(output_depth)
        First address of the stage in the output memory, in the cycle of `begin`.
    tail : Out, 1, only with `partial`
        The word is the last of a run of lanes, in the cycle of `enable`.
    tail_lanes : Out, a bit for each lane, only with `partial`
        Lanes of such a word that have an input; stays the same while the stage runs.
    """

    def __init__(self, mapping: Mapping, drain: int, partial: bool = False) -> None:
        self.mapping, self.drain, self.partial = mapping, drain, partial
        stages = len(mapping.stages)
        super().__init__(
            {
                "start": In(1),
                "buffer": In(1),
                "done": Out(1),
                "full": In(stages),
                "filled": Out(stages),
                "enable": Out(1),
                "address": Out(activation_address(mapping)),
                "weight": Out(range(mapping.weight_words)),
                "bias": Out(range(mapping.groups)),
                "first": Out(1),
                "last": Out(1),
                "pool": Out(PoolControl(mapping)),
                "relu": Out(1),
                "begin": Out(1),
                "output": Out(range(mapping.output_depth)),
                **(
                    {
                        **dict.fromkeys(("first_stage", "last_stage"), In(range(stages))),
                        **dict.fromkeys(("issued", "final", "tail"), Out(1)),
                        "tail_lanes": Out(mapping.lanes),
                    }
                    if partial
                    else {}
                ),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        stages = self.mapping.stages
        stage, ready = Signal(range(len(stages))), Signal()
        first_stage = self.first_stage if self.partial else 0
        last_stage = self.last_stage if self.partial else len(stages) - 1
        with m.Switch(stage):
            for number in range(len(stages)):
                with m.Case(number):
                    m.d.comb += ready.eq(~self.full[number])
        loops, group, last_mask = Loops(self.mapping), Signal.like(self.weight), Signal.like(self.pool.mask)
        pause, running = Signal(range(self.drain + 1)), Signal()
        leaves, over = Signal(), Signal() if self.partial else self.done
        # a register for each field: those that a single stage does not use go
        control = {name: Signal(part.shape, name=f"pool_{name}") for name, part in self.pool.shape()}
        m.d.comb += [self.pool[name].eq(part) for name, part in control.items()]
        with m.FSM() as fsm:
            with m.State("IDLE"):
                m.d.sync += stage.eq(first_stage)
                with m.If(self.start):
                    m.next = "WAIT"
            with m.State("WAIT"), m.If(ready):
                m.next = "BEGIN"
            with m.State("BEGIN"):
                with m.Switch(stage):
                    for number in range(len(stages)):
                        with m.Case(number):
                            loops.load(m, stages[number])
                            self._load(m, number, group, last_mask, control["target"])
                m.next = "FIRST"
            with m.State("FIRST"):
                loops.restart(m)
                m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += running.eq(1)
                loops.step(m)
                with m.If(loops.ends.all()):
                    m.d.sync += pause.eq(self.drain)
                    m.next = "DRAIN"
                    if self.partial:
                        # a pass of one stage is drained, too: its outputs have to be read before others come
                        with m.If((stage == last_stage) & (first_stage != last_stage)):
                            m.d.comb += leaves.eq(1)
                            m.next = "IDLE"
            with m.State("DRAIN"):
                m.d.sync += pause.eq(pause - 1)
                with m.If(pause == 0):
                    with m.Switch(stage):
                        for number in range(len(stages)):
                            with m.Case(number):
                                m.d.comb += self.filled[number].eq(1)
                    m.d.sync += stage.eq(stage + 1)
                    with m.If(stage == last_stage):
                        m.d.comb += over.eq(1)
                        m.d.sync += stage.eq(first_stage)
                        m.next = "IDLE"
                    with m.Else():
                        m.next = "WAIT"
        m.d.sync += self.begin.eq(fsm.ongoing("BEGIN"))
        if self.partial:
            m.d.sync += [self.final.eq(stage == last_stage), self.issued.eq(leaves | over)]
            left = delayed(m, leaves, 1 + self.drain, "left")
            m.d.comb += self.done.eq(over | left)
            with m.If(left), m.Switch(last_stage):
                for number in range(len(stages)):
                    with m.Case(number):
                        m.d.comb += self.filled[number].eq(1)
        self._issue(m, running, loops, group, last_mask, control)
        return m

    def _load(self, m: Module, number: int, group: Signal, last_mask: Signal, target: Signal) -> None:
        """Set the addresses and the flags of a stage."""
        own, columns = self.mapping.stages[number], self.mapping.columns
        idle = own.groups * columns - own.channels
        base = Mux(self.buffer, own.base + self.mapping.sample_values, own.base) if number == 0 else own.base
        m.d.sync += [
            last_mask.eq(((1 << columns) - 1) >> idle),
            group.eq(own.weights),
            self.weight.eq(own.weights),
            self.bias.eq(own.biases),
            self.address.eq(base),
            target.eq(own.target),
            self.output.eq(own.output),
            self.relu.eq(own.relu),
        ]
        if self.partial:
            m.d.sync += self.tail_lanes.eq((1 << self.mapping.tail_lanes(number)) - 1)

    def _issue(
        self,
        m: Module,
        running: Signal,
        loops: Loops,
        group: Signal,
        last_mask: Signal,
        control: dict[str, Signal],
    ) -> None:
        """One register behind the loops: the word's flags, and the addresses, which follow the step before."""
        count, outermost = loops.COUNT, loops.COUNT - 1
        level = Signal(range(count))
        for j in reversed(range(count)):
            with m.If(~loops.ends[j]):
                m.d.comb += level.eq(j)
        chosen = delayed(m, level, 1, "level")
        inner, pool = slice(loops.INNER), slice(loops.INNER, loops.POOL)
        m.d.sync += [
            self.enable.eq(running),
            self.first.eq(loops.begins[inner].all()),
            self.last.eq(loops.ends[inner].all()),
            control["first"].eq(loops.begins[pool].all()),
            control["last"].eq(loops.ends[pool].all()),
            control["mask"].eq(Mux(loops.ends[outermost], last_mask, (1 << self.mapping.columns) - 1)),
        ]
        if self.partial:
            m.d.sync += self.tail.eq(loops.ends[0])
        jump, move = Signal.like(self.address), Signal.like(self.address)
        for j in range(count):
            with m.If(chosen == j):
                m.d.comb += jump.eq(loops.jumps[j])
                if j >= loops.POOL:
                    m.d.comb += move.eq(loops.moves[j - loops.POOL])
        with m.If(self.enable):
            m.d.sync += [self.address.eq(self.address + jump), control["target"].eq(control["target"] + move)]
            with m.If((chosen < loops.INNER) | (chosen == outermost)):
                m.d.sync += self.weight.eq(self.weight + 1)
            with m.Else():
                m.d.sync += self.weight.eq(group)
            with m.If(chosen == outermost):
                m.d.sync += [group.eq(self.weight + 1), self.bias.eq(self.bias + 1)]
