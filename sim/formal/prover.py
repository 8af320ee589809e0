"""Prove a checker's rules with Yosys and ABC: property-directed reachability finds the inductive invariant itself."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from amaranth.back import rtlil

from ...golden.errors import UserError
from ...hw import yosys
from .checker import BROKEN, Checker
from .counterexample import write_counterexample

TOP = "checked"
"""Name of the module that is proved."""
CUTS = {"memories": "t:$mem_v2", "multipliers": "t:$mul r:A_SIGNED=1 %i"}
"""Parts whose results can be taken to be anything in every cycle, by the cells that they are made of."""


@dataclass(frozen=True)
class Proof:
    """Result for one rule.

    Parameters
    ----------
    rule : str
        Its name.
    status : "proved", "broken" or "open"
        Open: neither a proof nor a counterexample within the time.
    seconds : float
        Time that the engine took.
    cycles : int
        Cycles of the counterexample; 0 where there is none.
    """

    rule: str
    status: Literal["proved", "broken", "open"]
    seconds: float
    cycles: int = 0


def prove(
    checker: Checker,
    cut: Collection[str] = (),
    rules: Collection[str] = (),
    seconds: int = 120,
    keep: Path | None = None,
) -> Iterator[Proof]:
    """Prove a checker's rules, as many at a time as there are cores, and give the results in order.

    Parameters
    ----------
    checker : Checker
        With its rules; the handshakes are added.
    cut : collection of str
        Names from `CUTS`. What is proved holds for the whole; a counterexample may be one that the whole does not have.
    rules : collection of str
        Names of the rules to prove; by default all.
    seconds : int
        Time for each rule.
    keep : Path, optional
        Folder for a counterexample's waveform, netlist and test bench: ``RULE.vcd``, ``RULE.v``, ``RULE_tb.v``.

    Raises
    ------
    UserError
        If a name in `rules` is no rule of the checker, with those that are.
    """
    checker.handshakes()
    names = [name.removeprefix(BROKEN) for name in checker.ports if name.startswith(BROKEN)]
    if unknown := [name for name in rules if name not in names]:
        raise UserError(f"no rule called {unknown[0]!r}: choose from {', '.join(names)}")
    with tempfile.TemporaryDirectory(prefix="fabtune-proof-") as name:
        folder = Path(name)
        _write_model(checker, folder, cut)
        order = _outputs(folder / "model.map", names)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            chosen = [rule for rule in names if not rules or rule in rules]
            for proof in pool.map(lambda rule: _prove(folder, order[rule], rule, seconds), chosen):
                if proof.status == "broken" and keep:
                    write_counterexample(folder, TOP, order[proof.rule], proof.rule, keep)
                yield proof


def _write_model(checker: Checker, folder: Path, cut: Collection[str]) -> None:
    """Write a checker as an and-inverter graph, ``model.aig`` with the names in ``model.map``, and as Verilog.

    An output is high where its rule is broken. Registers without an initial value begin at 0, as those of an FPGA do.
    """
    text = rtlil.convert(checker.m, ports=list(checker.ports.values()), name=TOP, emit_src=False)
    (folder / "design.il").write_text(text, encoding="utf-8")
    yosys.run(
        [
            "read_rtlil design.il",
            f"hierarchy -top {TOP}",
            "proc",
            "flatten",
            f"delete -output w:* w:{BROKEN}* %d",
            "opt_clean",
            "memory_collect",
            # reads become asynchronous, with registers of their own that keep their enables
            "memory_nordff",
            *(f"delete {CUTS[each]}" for each in cut),
            "setundef -undriven -expose",
            "setundef -init -zero",
            "opt_clean",
            "async2sync",
            "chformal -lower",
            "opt_expr",
            "opt_clean",
            "write_rtlil prepared.il",
            "memory_map",
            "dffunmap",
            "opt_clean",
            "techmap",
            "opt_clean",
            "aigmap",
            "opt_clean",
            "write_aiger -I -O -L -zinit -no-startoffset -map model.map model.aig",
        ],
        folder,
    )


def _outputs(wires: Path, names: list[str]) -> dict[str, int]:
    """Numbers of the graph's outputs by the names of their rules; Yosys does not name those that are constant."""
    lines = (line.split() for line in wires.read_text(encoding="utf-8").splitlines())
    found = {line[3].removeprefix(BROKEN): int(line[1]) for line in lines if line[0] == "output"}
    constant = [name for name in names if name not in found]
    found |= zip(constant, sorted(set(range(len(names))) - set(found.values())), strict=True)
    if [found[name] for name in names] != sorted(found.values()):
        raise RuntimeError("the outputs of the graph are not in the order of the rules")
    return found


def _prove(folder: Path, output: int, rule: str, seconds: int) -> Proof:
    witness = folder / f"{output}.cex"
    start = time.monotonic()
    # scorr merges what it finds equal by induction, such as a register of the block and its model in a rule
    steps = ["read_aiger model.aig", "fold", f"cone -O {output}", "strash", "scorr"]
    script = "; ".join([*steps, f"pdr -T {seconds}", f"write_cex -a {witness}"])
    said = subprocess.run(
        [str(_abc()), "-q", script], cwd=folder, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    ).stdout
    taken = time.monotonic() - start
    if witness.exists():
        return Proof(rule, "broken", taken, len(witness.read_text(encoding="utf-8").splitlines()) - 2)
    # an output that is constant 0 leaves nothing to solve
    proved = "Property proved" in said or "All outputs solved" in said
    return Proof(rule, "proved" if proved else "open", taken)


@cache
def _abc() -> Path:
    package = find_spec("pyosys")
    program = Path(package.origin or "").parent / "yosys-abc" if package else None
    if not program or not program.exists():
        raise UserError("yosys-abc is not installed: pip install pyosys")
    return program
