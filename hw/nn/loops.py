"""Loops of the running stage: turns, steps of addresses, and where a sum begins and ends."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from ...golden.nn.array.mapping import Mapping
from ...golden.nn.array.stage_mapping import StageMapping
from .interfaces import activation_address


class Loops:
    """Registers of the running stage: turns, steps and flags of its loops, innermost first.

    Parameters
    ----------
    mapping : Mapping

    Attributes
    ----------
    count : int
        Number of loops: those of the mapping's stages.
    inner, pool, map : int
        Loops within a sum: runs of lanes, rows of the kernel. Those within a pool: its columns and rows, too. Those
        within a group of channels: columns and rows of the output, too.
    counters, limits : list of Signal
        Turns left of each loop; turns of each loop less one.
    begins, ends, single : Signal
        A bit for each loop: it is in its first turn, in its last turn; it has a single turn.
    jumps : list of Signal
        Step of the activation memory's address when this loop is the innermost one that has not ended.
    moves : list of Signal
        Step of the output's address for the loops from `pool` on.
    residual_jumps : list of Signal
        Step of the residual's address for the loops around a sum; none where no stage has a residual.
    adding : Value
        This cycle's word is the residual, the first one of a sum; all loops stay.
    parts : Signal
        Parts of the stage's sums; 0 for sums that are whole.
    within, halved : Signal
        Sums of the stage are those of single lanes, of half the lanes.
    outside : Value
        The sum is of a pixel beyond the map, of a pool's first or last windows.
    waiting : Value
        No word is issued: parts of the sum before are still to be rounded; all loops stay.
    """

    def __init__(self, mapping: Mapping) -> None:
        address = activation_address(mapping)
        self.count, self.inner = len(mapping.stages[0].loops), mapping.stages[0].inner
        self.pool, self.map = self.inner + 2, self.inner + 4
        turns = [max(stage.loops[j].count for stage in mapping.stages) for j in range(self.count)]
        self.counters = [Signal(range(most), name=f"counter{j}", reset_less=True) for j, most in enumerate(turns)]
        self.limits = [Signal(range(most), name=f"limit{j}", reset_less=True) for j, most in enumerate(turns)]
        self.begins, self.ends, self.single = (
            Signal(self.count, name=name, reset_less=True) for name in ("begins", "ends", "single")
        )
        self.jumps = [Signal(address, name=f"jump{j}", reset_less=True) for j in range(self.count)]
        self.moves = [Signal(address, name=f"move{j}", reset_less=True) for j in range(self.count - self.pool)]
        self._stages = mapping.stages
        self.adding: Value = Const(0)
        self._adds, self._added = Signal(name="adds"), Signal(name="added")
        self.residual_jumps = []
        self.has_residual = mapping.has_residuals
        if self.has_residual:
            self.residual_jumps = [
                Signal(address, name=f"residual_jump{j}", reset_less=True) for j in range(self.inner, self.count)
            ]
            self.adding = self._adds & self.begins[: self.inner].all() & ~self._added
        self.outside: Value = Const(0)
        self._beyond: list[tuple[Signal, Signal]] = []
        if mapping.has_padded_pools:
            # for columns and rows: what a pool's counter is above, below, in pixels beyond the map
            pool = self.counters[self.inner : self.pool]
            self._beyond = [
                (
                    Signal.like(counter, name=f"above{j}", reset_less=True),
                    Signal.like(counter, name=f"below{j}", reset_less=True),
                )
                for j, counter in enumerate(pool)
            ]
            self.outside = Cat(self._is_beyond(j) for j in range(len(pool))).any()
        self.has_parts, self.waiting = mapping.most_parts > 1, Const(0)
        # without, no sum needs to say what it is of
        self._has_kinds = mapping.has_within or mapping.has_halves
        self.within, self.halved = (Signal(name=name) for name in ("within", "halved"))
        self.parts = Signal(range(mapping.most_parts + 1), name="parts")
        self._left = Signal(range(mapping.most_parts), name="parts_left")
        if self.has_parts:
            self.waiting = self.first & self._left.any()
            self.adding &= ~self.waiting

    @property
    def over(self) -> Value:
        """Last word of the stage."""
        over = self.ends.all() & ~self.adding if self.has_residual else self.ends.all()
        return over & ~self.waiting if self.has_parts else over

    @property
    def first(self) -> Value:
        """First word of a sum."""
        begins = self.begins[: self.inner].all()
        return begins & ~self._added if self.has_residual else begins

    @property
    def last(self) -> Value:
        """Last word of a sum."""
        ends = self.ends[: self.inner].all()
        return ends & ~self.adding if self.has_residual else ends

    def _is_beyond(self, j: int) -> Value:
        """Whether the pixel is in a column (0) or row (1) beyond the map."""
        counter, windows = self.counters[self.inner + j], self.pool + j
        above, below = self._beyond[j]
        return (self.begins[windows] & (counter > above)) | (self.ends[windows] & (counter < below))

    def load(self, m: Module, stage: StageMapping) -> None:
        """Set the registers for a stage, in the module's current condition.

        Limit and steps of a loop with a single turn have no effect: they stay what another stage needs.
        """
        single = [loop.count == 1 for loop in stage.loops]
        m.d.sync += self.single.eq(sum(has_one << j for j, has_one in enumerate(single)))
        for j in range(self.count):
            used = next((user for user in (stage, *self._stages) if user.loops[j].count > 1), None)
            if used is not None:
                m.d.sync += [self.limits[j].eq(used.loops[j].count - 1), self.jumps[j].eq(self._jump(used, j))]
                if j >= self.pool:
                    m.d.sync += self.moves[j - self.pool].eq(self._move(used, j))

        top, bottom, left, right = stage.beyond
        sides = ((left, right), (top, bottom))
        for loop, (above, below), (before, behind) in zip(stage.loops[self.inner :], self._beyond, sides, strict=False):
            # a loop with a single turn has any counter: nothing is above the largest number
            m.d.sync += [above.eq(loop.count - 1 - before if before else ~0), below.eq(behind)]
        if self.has_parts:
            m.d.sync += [self.parts.eq(stage.parts if stage.parts > 1 else 0), self._left.eq(0)]
        if self._has_kinds:
            m.d.sync += [self.within.eq(stage.within), self.halved.eq(stage.halved)]
        if self.has_residual:
            m.d.sync += self._adds.eq(stage.residual is not None)
        if stage.residual is not None:
            strides = stage.residual.strides
            for outer, (jump, stride) in enumerate(zip(self.residual_jumps, strides, strict=True)):
                within = zip(stage.loops[self.inner :], strides[:outer], strict=False)
                m.d.sync += jump.eq(stride - sum((loop.count - 1) * inner for loop, inner in within))

    @staticmethod
    def _jump(stage: StageMapping, j: int) -> int:
        """Step of the address for a loop: all loops within it go back to their beginning."""
        return stage.loops[j].stride - sum((loop.count - 1) * loop.stride for loop in stage.loops[:j])

    def _move(self, stage: StageMapping, j: int) -> int:
        """Step of the output's address for one of the outermost loops."""
        within = zip(stage.loops[self.pool : j], stage.targets, strict=False)
        return stage.targets[j - self.pool] - sum((loop.count - 1) * target for loop, target in within)

    def restart(self, m: Module) -> None:
        """Begin all loops, in the module's current condition."""
        m.d.sync += [counter.eq(limit) for counter, limit in zip(self.counters, self.limits, strict=True)]
        m.d.sync += [self.begins.eq(~0), self.ends.eq(self.single)]

    def step(self, m: Module) -> None:
        """Take the next turn, in the module's current condition: whether a loop begins or ends is a register."""
        if self.has_residual:
            m.d.sync += self._added.eq(self.adding)
        if self.has_parts:
            # from a sum's first word to that of the next there are as many cycles as parts
            begins = self.first & ~self.waiting
            m.d.sync += self._left.eq(Mux(begins, self.parts - self.parts.any(), self._left - self._left.any()))
        if self.has_residual or self.has_parts:
            with m.If(~(self.adding | self.waiting)):
                self._turn(m)
        else:
            self._turn(m)

    def _turn(self, m: Module) -> None:
        for j, counter in enumerate(self.counters):
            with m.If(self.ends[: j + 1].all()):
                m.d.sync += [counter.eq(self.limits[j]), self.begins[j].eq(1), self.ends[j].eq(self.single[j])]
            with m.Elif(self.ends[:j].all()):
                m.d.sync += [counter.eq(counter - 1), self.begins[j].eq(0), self.ends[j].eq(counter == 1)]
