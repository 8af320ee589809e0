"""Rules of the shell with an arbitrary trainer: soft reset, the trainer's reset, answers of its bus.

The core here has an address, a setting with a reset value, and a counter; the rules hold for any core.
"""

from __future__ import annotations

from enum import IntEnum

from amaranth.hdl import Cat, Signal

from ...golden.cores.core import Check
from ...golden.cores.shell import Address, CoreRegisters, Counter, Setting
from ...hw.cores.shell import DRAIN_CYCLES, RESET_CYCLES, RESET_DELAY, Shell
from ..formal.checker import Checker
from ..formal.inside import parts_of, probe_of


class Command(IntEnum):
    GO = 1
    REST = 2


class Error(IntEnum):
    BAD_COMMAND = 1
    BAD_ADDRESS = 2
    TOO_LONG = 3
    BROKEN = 4


CORE = CoreRegisters(
    "few",
    Command,
    Error,
    settings=(Address("place", "of words", commands=(Command.GO,)), Setting("length", "words", reset=5)),
    counters=(Counter("words", "done"),),
)
ENDS = DRAIN_CYCLES + RESET_CYCLES + RESET_DELAY + 8
"""Upper bound in cycles of a soft reset with nothing on the bus: the sum of its parts, and a few between."""


def part() -> Shell:
    """Make the shell of the core."""
    return Shell(CORE, 0x1234, lambda command, settings: [Check(settings.length > 9, Error.TOO_LONG, settings.length)])


def check(checker: Checker, shell: Shell) -> None:
    """Add the rules.

    ``reset_state``: in the cycle after a soft reset all registers have their reset values. ``reset_kept``,
    ``reset_busy``, ``reset_starts_nothing``: until then the reset stays pending, and the core is busy and starts no
    command. ``reset_ends``: the soft reset ends if no burst is outstanding. ``clear_begins``, ``abort_ends``,
    ``clear_ends``: the trainer is reset once traffic has stopped and nothing is outstanding, stays in reset without
    `abort`, and is idle for some cycles before the next command. ``held_at_rest``: while no command runs, no burst may
    start. ``hold_begins``: without `abort`, the hold of bursts starts once nothing is outstanding. ``bus_b_of_aw``,
    ``bus_b_of_w``, ``bus_r_words``: one answer for each access of the host.
    """
    m, control, registers, idle = checker.m, shell.control, parts_of(shell).registers, probe_of(shell).state("IDLE")
    moves = {name: checker.moves(f"bus_{name}") for name in ("aw", "w", "b")}
    answer = (checker.streams["bus_b"].valid, moves["b"], 1)
    for half in ("aw", "w"):
        checker.balance(f"bus_b_of_{half}", [(moves[half], 1)], [answer], 2)
    checker.words("bus_ar", "bus_r", capacity=1, drained=2)

    pending = registers.soft_reset[0]
    before = {
        name: Signal(len(value), name=f"{name}_before")
        for name, value in {
            "pending": pending,
            "cleared": registers.clear,
            "clear": shell.clear,
            "abort": control.abort,
            "quiet": control.quiet,
        }.items()
    }
    m.d.sync += [
        before["pending"].eq(pending),
        before["cleared"].eq(registers.clear),
        before["clear"].eq(shell.clear),
        before["abort"].eq(control.abort),
        before["quiet"].eq(control.quiet),
    ]
    at_reset = [getattr(registers, item.name) == item.reset for item in CORE.map.accessed("RW", "W", "W1S", "R")]
    rest = [registers.command_strobe, shell.interrupt, control.abort, shell.clear, control.start]
    checker.rule("reset_state", ~before["cleared"] | (Cat(at_reset).all() & ~Cat(rest).any() & idle))
    checker.rule("reset_kept", ~before["pending"] | pending | before["cleared"])
    checker.rule("reset_busy", ~(before["pending"] & pending) | registers.status[0])
    checker.rule("reset_starts_nothing", ~(pending & control.start))
    checker.passes("reset_ends", pending & control.quiet, ENDS)
    checker.rule("clear_begins", ~shell.clear | before["clear"] | (before["abort"] & before["quiet"]))
    checker.rule("abort_ends", ~before["abort"] | control.abort | before["clear"])
    held, rested = Signal(name="held_before", init=1), Signal(name="rested_before")
    m.d.sync += [held.eq(control.hold), rested.eq(before["quiet"])]
    checker.rule("held_at_rest", control.hold | (registers.status[0] & ~registers.finished))
    checker.rule("hold_begins", ~control.hold | held | rested | control.abort)
    calm = checker.lasts("calm", ~shell.clear, RESET_DELAY)
    cleared = Signal(name="ever_cleared")
    m.d.sync += cleared.eq(cleared | shell.clear)
    checker.rule("clear_ends", ~(control.start & cleared) | calm)
