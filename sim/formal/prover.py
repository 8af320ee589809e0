"""Prove a checker's rules with Yosys and ABC, by k-induction or property-directed reachability.

Property-directed reachability finds an inductive invariant by itself: rules need no manual strengthening.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from amaranth.back import rtlil

from ...golden.errors import UserError
from ...hw import yosys
from .abc import run_abc
from .checker import BROKEN, Checker
from .counterexample import write_counterexample
from .initial import FREE, mark_reset_less

DEPTH = 8
"""Steps of the induction, which is tried before reachability."""
DEEP = 200
"""Depth in cycles of the search for a counterexample."""
_CONE = ("strash", "scleanup")
"""Remove logic without influence on a rule."""
_MERGE = ("scorr",)
"""Merge registers that induction proves equal; sometimes nothing remains to prove."""
_MERGED = "merged.aig"
_SHORT = {"pdr": 40, "pdr -t": 80}
"""Seconds of the first attempt with each invariant search."""
_LARGE = "pdr -t -nc"
"""Invariant search for a large block, with more effort for short clauses."""
TOP = "checked"
"""Module name of the checker."""
CUTS = {"memories": "t:$mem_v2", "multipliers": "t:$mul r:A_SIGNED=1 %i"}
"""Cells whose results may be arbitrary in every cycle, by Yosys selection.

Only signed multipliers, for data, are cut; unsigned address multipliers stay.

``memory:PATTERN`` selects memories with matching names, ``memories-but:PATTERN`` all other memories.
"""


@dataclass(frozen=True)
class Proof:
    """Result for one rule.

    Parameters
    ----------
    rule : str
    status : "proved", "broken" or "open"
        Open: no proof and no counterexample within the time limit.
    engine : str
        Method of the proof: ``signal correspondence``, ``8-induction``, or ``reachability``, which finds and checks an
        inductive invariant.
    seconds, cycles : float, int
        Run time, and length of the counterexample; 0 without one.
    """

    rule: str
    status: Literal["proved", "broken", "open"]
    engine: str
    seconds: float
    cycles: int = 0


def prove(
    checker: Checker,
    cut: Collection[str] = (),
    rules: Collection[str] = (),
    seconds: int = 120,
    keep: Path | None = None,
    large: bool = False,
) -> Iterator[Proof]:
    """Prove a checker's rules on all processor cores; yields the results in order.

    Parameters
    ----------
    cut : collection of str
        Names from `CUTS`. Proofs remain valid for the whole design; a counterexample may be spurious.
    rules : collection of str
        Rules to prove, in addition to all lemmas; by default all.
    seconds : int
        Time limit of each of the two invariant searches, and of the counterexample search.
    keep : Path, optional
        Folder for a counterexample's waveform, netlist and test bench: ``RULE.vcd``, ``RULE.v``, ``RULE_tb.v``.
    large : bool
        Begin with register abstraction, for blocks in which each rule depends on few registers.

    Raises
    ------
    UserError
        For an unknown rule, with the known names.
    """
    text, names = design_of(checker)
    if unknown := [name for name in rules if name not in names]:
        raise UserError(f"no rule called {unknown[0]!r}: choose from {', '.join(names)}")
    chosen = [name for name in names if not rules or name in rules or name in checker.lemmas]
    yield from prove_text(text, chosen, names, cut, seconds, keep, large)


def design_of(checker: Checker, emit_src: bool = False) -> tuple[str, list[str]]:
    """RTLIL of a checker with its handshake rules, for `prove_text`, and the names of its rules.

    `emit_src` keeps the Python source lines of each cell.
    """
    checker.handshakes()
    names = [name.removeprefix(BROKEN) for name in checker.ports if name.startswith(BROKEN)]
    fragment = mark_reset_less(checker.m)
    return rtlil.convert(fragment, ports=list(checker.ports.values()), name=TOP, emit_src=emit_src), names


def prove_text(
    text: str,
    rules: list[str],
    among: list[str],
    cut: Collection[str] = (),
    seconds: int = 120,
    keep: Path | None = None,
    large: bool = False,
    processes: int | None = None,
) -> Iterator[Proof]:
    """Prove rules of a design given as RTLIL; options as in `prove`.

    The top module is `TOP`, with an output ``broken_RULE`` for each rule. `among` lists all rules in the order of the
    outputs. At most `processes` proofs run at once, by default one per processor core.
    """
    with tempfile.TemporaryDirectory(prefix="fabtune-proof-") as name:
        folder = Path(name)
        _write_model(text, folder, cut)
        order = _outputs(folder / "model.map", among)
        if len(rules) > 1:
            _merge(folder, seconds)
        with ThreadPoolExecutor(processes or os.cpu_count()) as pool:
            for proof in pool.map(lambda rule: prove_output(folder, order[rule], rule, seconds, large), rules):
                if proof.status == "broken" and keep:
                    write_counterexample(folder, TOP, order[proof.rule], proof.rule, keep, _preparation(cut))
                yield proof


def _write_model(text: str, folder: Path, cut: Collection[str]) -> None:
    """Convert RTLIL to an and-inverter graph, ``model.aig``, with names in ``model.map``.

    An output is high where its rule is broken. Registers without a reset start with any value, see `initial`.
    """
    (folder / "design.il").write_text(text, encoding="utf-8")
    yosys.run(
        [
            *_preparation(cut),
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


def _preparation(cut: Collection[str]) -> list[str]:
    """Yosys commands that read ``design.il``, cut cells, and leave a flat module of simulatable cells."""
    return [
        "read_rtlil design.il",
        f"setattr -unset init w:* a:{FREE} %i",
        f"hierarchy -top {TOP}",
        "proc",
        "flatten",
        f"delete -output w:* w:{BROKEN}* %d",
        "opt_clean",
        "memory_collect",
        # make reads asynchronous, with separate registers that keep their enables
        "memory_nordff",
        *(f"delete {_cells(part)}" for part in cut),
        f"{yosys.CALL} {__package__}.initial free_initial_values",
        "setundef -undriven -expose",
        "setundef -init -zero",
        "opt_clean",
        "async2sync",
        "chformal -lower",
        "opt_expr",
        "opt_clean",
    ]


def _cells(cut: str) -> str:
    """Yosys selection of the cells of a cut."""
    kind, _, pattern = cut.partition(":")
    if kind in ("memory", "memories-but"):
        return f"{CUTS['memories']} r:MEMID=\\{pattern} {'%i' if kind == 'memory' else '%d'}"
    return CUTS[cut]


def _outputs(wires: Path, names: list[str]) -> dict[str, int]:
    """Output number of each rule; a constant output has no name in Yosys's map."""
    lines = (line.split() for line in wires.read_text(encoding="utf-8").splitlines())
    numbers = {line[3].removeprefix(BROKEN): int(line[1]) for line in lines if line[0] == "output"}
    constant = [name for name in names if name not in numbers]
    numbers |= zip(constant, sorted(set(range(len(names))) - set(numbers.values())), strict=True)
    if [numbers[name] for name in names] != sorted(numbers.values()):
        raise RuntimeError("the outputs of the graph are not in the order of the rules")
    return numbers


def _merge(folder: Path, seconds: int) -> None:
    """Merge equal registers of the whole graph, and write `_MERGED`; no file if this takes too long."""
    commands = ["read_aiger model.aig", "fold", *_CONE, *_MERGE, f"write_aiger {_MERGED}", "print_stats"]
    if not run_abc(folder, commands, seconds):
        (folder / _MERGED).unlink(missing_ok=True)


def prove_output(folder: Path, output: int, rule: str, seconds: int, large: bool = False) -> Proof:
    """Prove that an output of the and-inverter graph ``model.aig`` in `folder` is never high.

    Uses the graph of merged registers if present; writes a counterexample to ``OUTPUT.cex``. Limits as in `prove`.
    """
    witness, reduced, plain = (folder / f"{output}{end}" for end in (".cex", ".aig", "_plain.aig"))
    start = time.monotonic()

    def proof(status: Literal["proved", "broken", "open"], engine: str, cycles: int = 0) -> Proof:
        return Proof(rule, status, engine, time.monotonic() - start, cycles)

    cone = ["read_aiger model.aig", "fold", f"cone -O {output}", *_CONE]
    if (folder / _MERGED).exists():
        run_abc(folder, [f"read_aiger {_MERGED}", f"cone -O {output}", *_CONE, f"write_aiger {reduced}"])
        if not _constant(reduced.read_bytes()):
            run_abc(folder, [*cone, f"write_aiger {plain}"])
    else:
        run_abc(folder, [*cone, f"write_aiger {plain}", *_MERGE, f"write_aiger {reduced}"], seconds)
    if not reduced.exists():  # merging may time out for a large block
        run_abc(folder, [*cone, f"write_aiger {reduced}"])
    if not reduced.exists():
        raise UserError(f"yosys-abc could not read the model of rule {rule}")
    if _constant(reduced.read_bytes()):
        return proof("proved", "signal correspondence")
    if any(_inductive(folder, graph) for graph in (reduced, plain)):
        said = run_abc(folder, [f"read_aiger {reduced}", "strash", f"bmc3 -F {DEPTH + 1}", f"write_cex -a {witness}"])
        if not witness.exists() and any(words in said for words in ("No output", "Explored all reachable states")):
            return proof("proved", f"{DEPTH}-induction")
    else:
        # bounded search last: it finds late violations sooner than an invariant search
        searches = [f"{_LARGE} -T {seconds}"] if large else _searches(seconds)
        for search in (*searches, f"bmc3 -F {DEEP} -T {seconds}"):
            said = run_abc(folder, [f"read_aiger {reduced}", "strash", search, f"write_cex -a {witness}"])
            if "Property proved" in said:
                return proof("proved", "reachability")
            if witness.exists():
                break
    if witness.exists():
        return proof("broken", "", len(witness.read_text(encoding="utf-8").splitlines()) - 2)
    return proof("open", "")


def _inductive(folder: Path, graph: Path) -> bool:
    """True if an output that was low for `DEPTH` cycles stays low in the next cycle.

    Can hold for the plain graph and fail for the merged graph: merged registers no longer exclude some states.
    """
    return "are equivalent" in run_abc(
        folder, [f"read_aiger {graph}", "strash", f"ind -F {DEPTH} -C 1000000 -T {DEPTH}"]
    )


def _searches(seconds: int) -> Iterator[str]:
    """Invariant searches in order, each with its time limit.

    The first searches the whole model, the second abstracts most registers and restores them on demand. Abstraction
    proves rules that depend on little of a large block, such as its counters, where the whole-model search finds
    nothing in minutes; other rules take it twice as long or more. Both therefore start with a short limit.
    """
    for search, short in _SHORT.items():
        yield f"{search} -T {min(short, seconds)}"
    for search, short in _SHORT.items():
        if seconds > short:
            yield f"{search} -T {seconds}"


def _constant(graph: bytes) -> bool:
    """True if an and-inverter graph with a single output is constant 0: no registers, no gates."""
    header, output = graph.splitlines()[:2]
    return header.split()[3:] == [b"0", b"1", b"0"] and output == b"0"
