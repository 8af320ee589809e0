"""Loops of the running stage: iterations, address steps, ends of sums."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from ...golden.nn.array.mapping import Mapping
from ...golden.nn.array.stage_mapping import StageMapping
from .interfaces import activation_address


class Loops:
    """Registers of the running stage's loops, innermost first.

    Parameters
    ----------
    mapping : Mapping

    Attributes
    ----------
    count : int
        Number of loops.
    inner, pool, map : int
        Number of loops within a sum (runs, kernel rows), within a pool (and its columns and rows), within a group of
        channels (and output columns and rows).
    counters, limits : list of Signal
        Remaining iterations; iterations less one.
    begins, ends, single : Signal
        A bit a loop: first iteration, last iteration, single iteration.
    jumps : list of Signal
        Step of the activation address if this is the innermost loop that continues.
    moves : list of Signal
        Step of the output address, from loop `pool` on.
    residual_jumps : list of Signal
        Step of the residual address, for loops around a sum; empty without residuals.
    adding : Value
        The word is the residual, first of a sum; all loops stay.
    parts : Signal
        Parts of the stage's sums; 0 for whole sums.
    within, halved : Signal
        Sums are of single lanes, of half the lanes.
    outside : Value
        The pixel is in a pool's padding.
    waiting : Value
        No word is issued while parts of the preceding sum are rounded; all loops stay.
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
            # for columns and rows: bounds of a pool's counter in its padding
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
        self._has_kinds = mapping.has_within or mapping.has_halves
        self.within, self.halved = (Signal(name=name) for name in ("within", "halved"))
        self.parts = Signal(range(mapping.most_parts + 1), name="parts")
        self._left = Signal(range(mapping.most_parts), name="parts_left")
        if self.has_parts:
            self.waiting = self.first & self._left.any()
            self.adding &= ~self.waiting

    @property
    def over(self) -> Value:
        """Whether the word is the stage's last."""
        over = self.ends.all() & ~self.adding if self.has_residual else self.ends.all()
        return over & ~self.waiting if self.has_parts else over

    @property
    def first(self) -> Value:
        """Whether the word is the first of a sum."""
        begins = self.begins[: self.inner].all()
        return begins & ~self._added if self.has_residual else begins

    @property
    def last(self) -> Value:
        """Whether the word is the last of a sum."""
        ends = self.ends[: self.inner].all()
        return ends & ~self.adding if self.has_residual else ends

    def _is_beyond(self, j: int) -> Value:
        """Whether the pixel's column (0) or row (1) is in the padding."""
        counter, windows = self.counters[self.inner + j], self.pool + j
        above, below = self._beyond[j]
        return (self.begins[windows] & (counter > above)) | (self.ends[windows] & (counter < below))

    def load(self, m: Module, stage: StageMapping) -> None:
        """Set the registers for a stage, in the module's current condition.

        Limit and steps of a single iteration have no effect, and take another stage's values.
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
            # the counter of a single iteration is arbitrary: nothing exceeds the largest number
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
        """Address step of a loop; inner loops return to their beginning."""
        return stage.loops[j].stride - sum((loop.count - 1) * loop.stride for loop in stage.loops[:j])

    def _move(self, stage: StageMapping, j: int) -> int:
        """Output address step of a loop from `pool` on."""
        within = zip(stage.loops[self.pool : j], stage.targets, strict=False)
        return stage.targets[j - self.pool] - sum((loop.count - 1) * target for loop, target in within)

    def restart(self, m: Module) -> None:
        """Start all loops, in the module's current condition."""
        m.d.sync += [counter.eq(limit) for counter, limit in zip(self.counters, self.limits, strict=True)]
        m.d.sync += [self.begins.eq(~0), self.ends.eq(self.single)]

    def step(self, m: Module) -> None:
        """Advance the loops, in the module's current condition."""
        if self.has_residual:
            m.d.sync += self._added.eq(self.adding)
        if self.has_parts:
            # first words of sums are at least `parts` cycles apart
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
