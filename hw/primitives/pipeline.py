"""Pipelines with named stages; delay lines."""

from collections.abc import Iterable, Mapping

from amaranth.hdl import Cat, Module, Signal, Value, ValueLike
from amaranth.lib import data


class Pipeline:
    """Named stages with fixed distances in cycles; place a value at one stage, read it at a later stage.

    The caller keeps the registers of the data path. A placed value gets a delay register for each cycle between both
    stages.

    ::

        pipeline = Pipeline(m, {"operands": 0, "product": 1, "sum": adder_levels})
        last = pipeline.place("operands", self.i.payload.last, "last")
        m.d.comb += self.o.payload.last.eq(last.at("sum"))

    Parameters
    ----------
    stages : mapping of str to int
        Distance of each named stage from the previous stage, in cycles; 0 for the first stage.
    enable : ValueLike, optional
        Clock enable of the registers.

    Raises
    ------
    ValueError
        If a distance is negative.
    """

    def __init__(self, m: Module, stages: Mapping[str, int], enable: ValueLike | None = None) -> None:
        self._m, self._enable = m, enable
        self._cycles: dict[str, int] = {}
        total = 0
        for stage, cycles in stages.items():
            if cycles < 0:
                raise ValueError(f"stage {stage} is {cycles} cycles behind the one before: give 0 or more")
            total += cycles
            self._cycles[stage] = total

    def latency(self, start: str, end: str) -> int:
        """Cycles from one stage to another; ValueError if `end` is earlier."""
        cycles = self._cycles[end] - self._cycles[start]
        if cycles < 0:
            raise ValueError(f"stage {end} is {-cycles} cycles before stage {start}: give one behind it")
        return cycles

    def place(self, stage: str, value: Value, name: str, reset_less: bool = False) -> "Placed":
        """Place a value, or a view, at the stage where it is valid.

        Registers are called ``NAME_NUMBER``. They have a reset unless `reset_less`: valid flags need a reset, data do
        not.
        """
        return Placed(self, stage, value, name, reset_less)

    def place_flag(self, stage: str, flag: Value, register: Signal) -> "Placed":
        """Place a single bit; `register`, a signal of the caller, is its shift register, a bit per cycle."""
        self.load(register, Cat(flag, register[:-1]))
        return Placed(self, stage, flag, register.name, later=register)

    def load(self, register: Signal, value: ValueLike) -> None:
        """Assign a register's next value, with the pipeline's clock enable."""
        if self._enable is None:
            self._m.d.sync += register.eq(value)
        else:
            with self._m.If(self._enable):
                self._m.d.sync += register.eq(value)


class Placed:
    """A value placed in a `Pipeline`; all readers share its delay registers, up to the latest stage that is read."""

    def __init__(
        self,
        pipeline: Pipeline,
        stage: str,
        value: Value,
        name: str,
        reset_less: bool = False,
        later: Iterable[Value] = (),
    ) -> None:
        self._pipeline, self._stage, self._name, self._reset_less = pipeline, stage, name, reset_less
        self._layout = value.shape() if isinstance(value, data.View) else None
        self._copies = [Value.cast(value), *later]

    def at(self, stage: str) -> Value:
        """The value at a stage; a view of the same layout if a view was placed."""
        cycles = self._pipeline.latency(self._stage, stage)
        for number in range(len(self._copies) - 1, cycles):
            before = self._copies[-1]
            register = Signal(before.shape(), name=f"{self._name}_{number}", reset_less=self._reset_less)
            self._pipeline.load(register, before)
            self._copies.append(register)
        plain = self._copies[cycles]
        return plain if self._layout is None else data.View(self._layout, plain)

    @property
    def later(self) -> list[Value]:
        """Outputs of the delay registers: the value one cycle after its stage, two cycles after, and so on."""
        return self._copies[1:]


def delayed(m: Module, value: Value, cycles: int, name: str = "delayed", reset_less: bool = False) -> Value:
    """Delay a value by a fixed number of cycles.

    Parameters
    ----------
    value : Value or data.View
        A view is returned as a view of the same layout.
    cycles : int
        Number of registers; 0 returns `value` itself.
    name : str
        Prefix of the registers' names: ``NAME_NUMBER``.
    reset_less : bool
        Registers without reset, for data qualified by a flag. Synthesis then maps several to one LUT per bit.

    Returns
    -------
    Value or data.View
        `value` of `cycles` cycles ago; zero in the first `cycles` cycles after a reset, unless `reset_less`.
    """
    return Pipeline(m, {"now": 0, "later": cycles}).place("now", value, name, reset_less).at("later")
