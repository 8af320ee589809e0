"""Facts of the boards: parts, resources, clocks and user pins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ..golden.errors import UserError
from ..golden.memories.plan import Device

RESOURCES = ("lut", "ff", "bram36", "uram", "dsp")
"""Resources that are counted on every board and in every estimate; half a ``bram36`` is one 18 Kib memory."""


@dataclass(frozen=True)
class Clock:
    """A differential oscillator that reaches the programmable logic.

    Parameters
    ----------
    name : str
        Name of the port pair in the constraints, without ``_p`` and ``_n``.
    mhz : float
        Its frequency.
    p, n : str
        Package pins.
    standard : str
        I/O standard.
    """

    name: str
    mhz: float
    p: str
    n: str
    standard: str


@dataclass(frozen=True)
class ProcessorClock:
    """Clock `pl_clk0`, which the processing system gives the fabric: a PLL divided by two integers.

    Parameters
    ----------
    pll : str
        Name of the PLL in Vivado.
    mhz : float
        Its frequency, with a reference clock of exactly 100/3 MHz. The reference clocks of the boards are up to
        0.01 % slower, and so is every rate.
    dividers : tuple of int
        Largest value of each divider.
    slowest, fastest : float
        Bounds of the rates that are offered, in MHz.
    """

    pll: str
    mhz: float
    dividers: tuple[int, int]
    slowest: float
    fastest: float

    @cached_property
    def rates(self) -> tuple[float, ...]:
        """All rates that are offered, in MHz to the hertz, the slowest first."""
        first, second = (range(1, largest + 1) for largest in self.dividers)
        rates = {round(self.mhz / (one * two), 6) for one in first for two in second}
        return tuple(sorted(rate for rate in rates if self.slowest <= rate <= self.fastest))

    def rate(self, mhz: float) -> float:
        """Find the rate that is meant: one within `MEANT`.

        Raises
        ------
        UserError
            If there is none, with the rates beside it.
        """
        if found := [rate for rate in self.rates if abs(rate - mhz) <= MEANT]:
            return found[0]
        beside = [rate for rate in self.rates if rate < mhz][-1:] + [rate for rate in self.rates if rate > mhz][:1]
        between = self.slowest <= mhz <= self.fastest
        take = " or ".join(f"{rate:.4g}" for rate in beside) if between else f"{self.slowest:g} to {self.fastest:g}"
        raise UserError(
            f"{mhz:g} MHz is no clock of this board: pl_clk0 is {self.mhz:g} MHz divided by integers; take {take}"
        )


@dataclass(frozen=True)
class Pins:
    """User I/O of one kind, pin 0 first.

    Parameters
    ----------
    name : str
        Name of the port in the constraints; a vector where there are several pins.
    pins : tuple of str
        Package pins.
    standard : str
        I/O standard.
    note : str
        Label or position on the board.
    """

    name: str
    pins: tuple[str, ...]
    standard: str = "LVCMOS33"
    note: str = ""


@dataclass(frozen=True)
class Board:
    """A platform.

    Parameters
    ----------
    name, part, board_part : str
        Names in fabtune, of the device and of the board in Vivado.
    resources : dict of str to int
        How much the device has of each of `RESOURCES`.
    clocks : tuple of Clock
        Oscillators; none where the processor gives the clock.
    pins : tuple of Pins
        User I/O.
    processor_clock : ProcessorClock
        Clock of a core in a block design.
    board_connections : str
        Vivado's property of a board that is a module on a carrier; else empty.
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
        """Blocks of RAM of the device, on which the kinds of a design's memories depend."""
        return Device(self.resources["bram36"], self.resources["uram"])

    def utilisation(self, resources: Mapping[str, float]) -> dict[str, float | None]:
        """Percent of the board that a design takes.

        Parameters
        ----------
        resources : dict of str to float
            The amount of each of `RESOURCES`, all of them.

        Returns
        -------
        dict of str to float or None
            Above 100 where the design is too large; None (null in JSON) where it uses what the board lacks.

        Raises
        ------
        UserError
            If an amount is missing, unknown, negative or not a number: nothing missing counts as 0.
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
        """Name the resources of which a design needs more than the board has; empty if it fits."""
        return tuple(key for key, share in self.utilisation(resources).items() if share is None or share > 100)


def _percent(used: float, available: int) -> float | None:
    if not available:
        return None if used else 0.0
    return 100 * used / available


DEFAULT_MHZ = 187.5
"""Clock of a core where the user names none, and the one for which reports give times."""
MEANT = 0.05
"""MHz by which what a user writes may differ from a rate: 214.3 is 1500/7. Less than half of any step between rates."""
IOPLL = ProcessorClock("IOPLL", 1500.0, (63, 63), slowest=20.0, fastest=300.0)
"""The source in the presets of both boards; dividers of 6 bits (UG1085, PL0_REF_CTRL).

Below 20 MHz rates are too near to each other to be written with a decimal. Above 300 MHz the next is 375 MHz, too fast
for the processor's AXI ports.
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
"""The board of Verilog and of an estimate where the user names none: both are then of the same memories."""


def board(name: str) -> Board:
    """A board by its name.

    Raises
    ------
    UserError
        If there is none of that name, with the names there are.
    """
    if name not in BOARDS:
        raise UserError(f"no board called {name!r}: choose one of {', '.join(BOARDS)}")
    return BOARDS[name]
