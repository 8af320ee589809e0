"""Edges of a core: its AXI4 ports and its registers' bus, proved on its own netlist without the engine.

Kept are the core, its shell with the registers, its trainer's own logic, and the memory system, with small bursts and
FIFOs. All other parts of the trainer are left out: what they drive is anything in every cycle, and so is what memories
give. A behaviour of the whole core is one of what is left, with those signals as the parts drive them; so a rule that
is proved here holds for the whole core, whatever network it is generated for. It is proved for small bursts and FIFOs,
as all rules of the managers are.

Proved of each port: bursts are legal, held until they are taken, and no more are outstanding than there is room for;
beats of a write are exactly those announced; after a fault no burst begins and those that have begun end; all of that
with a memory that answers in any legal way, after any delay, with errors. Proved of the whole: where the core is not
busy nothing is on offer or outstanding on any port, and so at the end of each command, at its interrupt, and up to the
next command; the reset after a fault comes only when all ports are at rest. Proved of the registers' bus: one answer
for each access, held until it is taken.

Not looked at here, because it is proved of the parts: which beats a requester is given, if it asks as documented
(`formal_memory_system` and the parts it names), and what the registers hold and answer (`formal_axi_registers`, which
holds for the map of any core).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from amaranth.hdl import Cat

from ...golden.cores.shell import SHELL
from ..formal.checker import Checker
from ..formal.inside import cleared_by, leave_out, parts_of, probe_of
from .formal_memory_system import READER, WRITER, edges, idle

_BUSY = next(item for item in SHELL if item.name == "status").field("busy").low
"""Bit of the status: a command is running."""
_MOVING = ("RUN", "REST"), ("STOP", "DRAIN")
"""States of the shell in which bursts may be outstanding: a command runs, or traffic ends."""


def shrink(core: Any, *inside: str) -> None:
    """Give the ports of a core small bursts and FIFOs.

    Parameters
    ----------
    core : ShelledCore
    inside : str
        The part of its trainer that has the memory system, if it is not the trainer itself; of parts the way to it.
    """
    memory = trainer_of(core, *inside).memory
    memory.reader, memory.writer = READER, WRITER


def core_rules(checker: Checker, core: Any, *inside: str, keep: Collection[str] = ()) -> None:
    """Add the rules of a core's edges; parts of the trainer that are named in `keep` are kept, too.

    Those of the AXI4 ports are rules of `formal_memory_system`. ``reader0_rest``, ``writer0_rest`` and so on: nothing
    is on offer or outstanding on a port but in four states of the shell; ``at_rest``: it is in none of them as a
    command ends, and while none runs. ``cleared``: nor is anything outstanding in the reset after a fault, which the
    ports share. ``control_b_of_aw``, ``control_b_of_w``, ``control_r_words``: one answer for each access of the host.
    """
    # the reset that the checker has resets all in the same cycle
    checker.assume(~checker.block.reset)
    shell, trainer = parts_of(checker.block).shell.part, trainer_of(core)
    for name in inside:
        leave_out(checker, trainer, name)
        trainer = parts_of(trainer)[name]
    leave_out(checker, trainer, "memory", *keep)
    moves = {name: checker.moves(f"control_{name}") for name in ("aw", "w", "b")}
    answer = (checker.streams["control_b"].valid, moves["b"], 1)
    for half in ("aw", "w"):
        checker.balance(f"control_b_of_{half}", [(moves[half], 1)], [answer], 2)
    checker.words("control_ar", "control_r", capacity=1, drained=2)
    states = probe_of(shell)
    runs, stops = (Cat(states.state(name) for name in names).any() for names in _MOVING)
    checker.lemma("held", shell.control.hold | runs | states.state("STOP"))
    rest = ~(runs | stops)
    with cleared_by(checker, parts_of(core).trainer.active):
        edges(checker, trainer.memory, rest)
    checker.rule("cleared", ~shell.clear | idle(trainer.memory))
    checker.rule("at_rest", rest | (shell.registers.status[_BUSY] & ~shell.registers.finished))


def trainer_of(core: Any, *inside: str) -> Any:
    """Give the trainer inside the tree that resets it, or a part of it."""
    found = parts_of(core).trainer.part
    for name in inside:
        found = parts_of(found)[name]
    return found
