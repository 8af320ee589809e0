"""Facts of the boards: parts, resources, clocks and user pins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ..golden.errors import UserError
from ..golden.memories.plan import Device

RESOURCES = ("lut", "ff", "bram36", "uram", "dsp")
"""Resources of every board and estimate; half a ``bram36`` is one 18 Kib memory."""


@dataclass(frozen=True)
class Clock:
    """A differential oscillator of the programmable logic.

    Ports ``NAME_p`` and ``NAME_n`` of the constraints are on package pins ``p`` and ``n`` with an I/O standard.
    """

    name: str
    mhz: float
    p: str
    n: str
    standard: str


@dataclass(frozen=True)
class ProcessorClock:
    """Clock `pl_clk0` from the processing system to the fabric: a PLL divided by two integers.

    ``pll`` is Vivado's name of the PLL. ``mhz`` is the PLL's rate for a reference clock of exactly 100/3 MHz; the
    boards' reference clocks, and so all rates, are up to 0.01 % slower. ``dividers`` are the largest values of the two
    dividers. Offered rates lie between ``slowest`` and ``fastest`` MHz.
    """

    pll: str
    mhz: float
    dividers: tuple[int, int]
    slowest: float
    fastest: float

    @cached_property
    def rates(self) -> tuple[float, ...]:
        """All offered rates in MHz, rounded to 1 Hz, ascending."""
        first, second = (range(1, largest + 1) for largest in self.dividers)
        rates = {
            round(self.mhz / (first_divider * second_divider), 6)
            for first_divider in first
            for second_divider in second
        }
        return tuple(sorted(rate for rate in rates if self.slowest <= rate <= self.fastest))

    def rate(self, mhz: float) -> float:
        """Offered rate at most `MEANT` from ``mhz``; if there is none, a `UserError` names the neighbouring rates."""
        if matches := [rate for rate in self.rates if abs(rate - mhz) <= MEANT]:
            return matches[0]
        neighbours = [rate for rate in self.rates if rate < mhz][-1:] + [rate for rate in self.rates if rate > mhz][:1]
        between = self.slowest <= mhz <= self.fastest
        take = " or ".join(f"{rate:.4g}" for rate in neighbours) if between else f"{self.slowest:g} to {self.fastest:g}"
        raise UserError(
            f"{mhz:g} MHz is no clock of this board: pl_clk0 is {self.mhz:g} MHz divided by integers; take {take}"
        )


@dataclass(frozen=True)
class Pins:
    """User I/O of one kind on package pins, pin 0 first; several pins make the port a vector.

    ``note`` is the label or position on the board.
    """

    name: str
    pins: tuple[str, ...]
    standard: str = "LVCMOS33"
    note: str = ""


@dataclass(frozen=True)
class Board:
    """A platform.

    ``name`` is fabtune's name; ``part`` and ``board_part`` are Vivado's names. ``resources`` are the amounts of
    `RESOURCES`. ``clocks`` is empty if only the processor provides a clock. ``processor_clock`` is the clock of a core
    in a block design. ``board_connections`` is Vivado's property of that name for a module on a carrier, else empty.
    """

    name: str
    part: str
    board_part: str
    resources: Mapping[str, int]
    clocks: tuple[Clock, ...]
    pins: tuple[Pins, ...]
    processor_clock: ProcessorClock
    board_connections: str = ""

    @property
    def device(self) -> str:
        """The part without package, speed and temperature."""
        return self.part.split("-")[0]

    @property
    def fabric(self) -> Device:
        """Numbers of BRAM36 and UltraRAM blocks, which decide the kinds of a design's memories."""
        return Device(self.resources["bram36"], self.resources["uram"])

    def utilisation(self, resources: Mapping[str, float]) -> dict[str, float | None]:
        """Share of the board in percent, for each of `RESOURCES`.

        Above 100 for a design that is too large; None (null in JSON) for a used resource that the board lacks. A
        `UserError` if an amount is missing, unknown, negative or not finite: nothing missing counts as 0.
        """
        if set(resources) != set(RESOURCES):
            missing = [key for key in RESOURCES if key not in resources]
            unknown = sorted(set(resources) - set(RESOURCES))
            wrong = [f"no {', '.join(missing)}"] * bool(missing) + [f"unknown {', '.join(unknown)}"] * bool(unknown)
            raise UserError(f"resources with {' and '.join(wrong)}: give exactly {', '.join(RESOURCES)}")
        for key, used in resources.items():
            if not 0 <= used < math.inf:
                raise UserError(f"{key} = {used} is not an amount: give a number from 0 up")
        return {key: _percent(resources[key], self.resources[key]) for key in RESOURCES}

    def lacks(self, resources: Mapping[str, float]) -> tuple[str, ...]:
        """Names of the resources that a design exceeds; empty if the design fits."""
        return tuple(key for key, share in self.utilisation(resources).items() if share is None or share > 100)


def _percent(used: float, available: int) -> float | None:
    if not available:
        return None if used else 0.0
    return 100 * used / available


DEFAULT_MHZ = 187.5
"""Default clock of a core; reports give times at this clock."""
MEANT = 0.05
"""Tolerance in MHz of a user's rate: 214.3 means 1500/7. The tolerance is less than half of any step between rates."""
IOPLL = ProcessorClock("IOPLL", 1500.0, (63, 63), slowest=20.0, fastest=300.0)
"""PLL in the presets of both boards; dividers of 6 bits (UG1085, PL0_REF_CTRL).

Below 20 MHz rates are closer than a decimal can tell. Above 300 MHz the next rate is 375 MHz, too fast for the
processor's AXI ports.
"""

BOARDS: dict[str, Board] = {
    "zcu102": Board(
        name="zcu102",
        part="xczu9eg-ffvb1156-2-e",
        board_part="xilinx.com:zcu102:part0:3.4",
        resources={"lut": 274_080, "ff": 548_160, "bram36": 912, "uram": 0, "dsp": 2_520},
        clocks=(
            Clock("clk_125", 125.0, "G21", "F21", "LVDS_25"),
            Clock("clk_300", 300.0, "AL8", "AL7", "DIFF_SSTL12"),
            Clock("clk_74_25", 74.25, "AK15", "AK14", "LVDS_25"),
        ),
        pins=(
            Pins("cpu_reset", ("AM13",), note="push button CPU_RESET"),
            Pins("led", ("AG14", "AF13", "AE13", "AJ14", "AJ15", "AH13", "AH14", "AL12")),
            Pins("dip", ("AN14", "AP14", "AM14", "AN13", "AN12", "AP12", "AL13", "AK13")),
            Pins("button", ("AG13", "AF15", "AE15", "AE14", "AG15"), note="centre, west, south, east, north"),
        ),
        processor_clock=IOPLL,
    ),
    "kv260": Board(
        name="kv260",
        part="xck26-sfvc784-2LV-c",
        board_part="xilinx.com:kv260_som:part0:1.4",
        resources={"lut": 117_120, "ff": 234_240, "bram36": 144, "uram": 64, "dsp": 1_248},
        clocks=(),
        pins=(
            Pins("pmod_top", ("H12", "E10", "D10", "C11"), note="J2, pins 1, 3, 5, 7"),
            Pins("pmod_bottom", ("B10", "E12", "D11", "B11"), note="J2, pins 2, 4, 6, 8"),
            Pins("fan", ("A12",), note="fan enable"),
        ),
        processor_clock=IOPLL,
        board_connections="som240_1_connector xilinx.com:kv260_carrier:som240_1_connector:1.3",
    ),
}
"""The supported boards, by name."""
DEFAULT_BOARD = "zcu102"
"""Default board of both emitted Verilog and estimates, so that both describe the same memories."""


def board(name: str) -> Board:
    """Look up a board; a `UserError` with the known names for an unknown name."""
    if name not in BOARDS:
        raise UserError(f"no board called {name!r}: choose one of {', '.join(BOARDS)}")
    return BOARDS[name]
