"""Rules of a core's AXI4 ports and register bus, proved on the core's netlist without the engine.

The netlist keeps the core, its shell with the registers, the trainer's own logic, and the memory system with small
bursts and FIFOs, as in all proofs of the managers. Outputs of all other parts of the trainer, and of memories, are free
in every cycle. This over-approximates the whole core, so a proved rule holds for any network.

The memory at each port has any legal behaviour: any delay, and errors. Proved for each port: bursts are legal, stay
offered until accepted, and never exceed the limit of outstanding bursts; write beats match their bursts; after a fault
no burst starts, and started bursts end. Proved for all ports together: while the core is not busy, from a command's end
and interrupt to the next command, nothing is offered or outstanding; after a fault the core resets only once all ports
are at rest. The register bus answers each access once and holds the answer until it is accepted.

Other proofs cover the beats of each requester (`formal_memory_system` and the proofs it names), and the contents and
answers of registers (`formal_axi_registers`, for any register map).
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
"""Status bit: a command is running."""
_MOVING = ("RUN", "REST"), ("STOP", "DRAIN")
"""States of the shell in which bursts may be outstanding: a command runs, or traffic ends."""


def shrink(core: Any, *inside: str) -> None:
    """Give a core small bursts and FIFOs; `inside` is the path from the trainer to the submodule with the memory
    system.
    """
    memory = trainer_of(core, *inside).memory
    memory.reader, memory.writer = READER, WRITER


def core_rules(checker: Checker, core: Any, *inside: str, keep: Collection[str] = ()) -> None:
    """Add the rules of a core's edges; submodules of the trainer named in `keep` stay in the netlist.

    Rules of the AXI4 ports are in `formal_memory_system`. ``reader0_rest``, ``writer0_rest`` and so on: outside four
    states of the shell nothing is offered or outstanding on the port. ``at_rest``: at the end of a command and while
    none runs, the shell is in none of these four states. ``cleared``: nothing is outstanding in the reset after a
    fault, which the ports share. ``control_b_of_aw``, ``control_b_of_w``, ``control_r_words``: one answer for each
    access of the host.
    """
    # the checker's reset resets everything in the same cycle
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
    """The trainer without the wrapper that resets it, or the submodule at the path `inside`."""
    found = parts_of(core).trainer.part
    for name in inside:
        found = parts_of(found)[name]
    return found
