"""Edges of a core: its AXI4 ports and its registers' bus, proved on its own netlist without the engine.

Kept are the core, its shell with the registers, its trainer's own logic, and the memory system, with small bursts and
FIFOs. All other parts of the trainer are left out: what they drive is anything in every cycle. What is proved holds for
whatever they do, so for the core as it is; it holds for small bursts and FIFOs only, as all proofs of the managers do.
What the ports give the engine is not looked at here, see `formal_memory_system`.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat

from ..formal.checker import Checker
from ..formal.inside import cleared_by, leave_out, parts_of
from .formal_memory_system import READER, WRITER, edges


def shrink(core: Any) -> None:
    """Give the ports of a core small bursts and FIFOs."""
    memory = _trainer(core).memory
    memory.reader, memory.writer = READER, WRITER


def core_rules(checker: Checker, core: Any) -> None:
    """Add the rules of a core's edges.

    Those of the AXI4 ports are rules of `formal_memory_system`. ``cleared``: the reset after a fault, which the ports
    share, comes only while nothing is on offer or outstanding on any of them. ``control_b_of_aw``, ``control_b_of_w``,
    ``control_r_words``: one answer for each access of the host.
    """
    shell, trainer = parts_of(checker.block).shell, _trainer(core)
    leave_out(checker, trainer, keep="memory")
    moves = {name: checker.moves(f"control_{name}") for name in ("aw", "w", "b")}
    answer = (checker.streams["control_b"].valid, moves["b"], 1)
    for half in ("aw", "w"):
        checker.balance(f"control_b_of_{half}", [(moves[half], 1)], [answer], 2)
    checker.words("control_ar", "control_r", capacity=1, drained=2)
    memory = trainer.memory
    with cleared_by(checker, shell.clear):
        edges(checker, memory)
    parts = parts_of(memory)
    idle = [getattr(parts, f"{half}{port}").idle for half in ("read", "write") for port in range(memory.ports)]
    checker.rule("cleared", ~shell.clear | Cat(idle).all())


def _trainer(core: Any) -> Any:
    """The trainer inside: a core resets it as a whole, and the object that does so keeps it."""
    return parts_of(core).trainer._elaboratable_
