"""Prove a checker's rules with Yosys and ABC, by k-induction, or by property-directed reachability.

The latter finds an inductive invariant itself, so that rules need no help.
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
"""Steps of the induction that is tried before reachability."""
DEEP = 200
"""Cycles up to which a counterexample is looked for where no proof is found."""
_CONE = ("strash", "scleanup")
"""Leave out what a rule does not depend on."""
_MERGE = ("scorr",)
"""Merge registers that are equal by induction; sometimes that leaves nothing to prove."""
_MERGED = "merged.aig"
_SHORT = {"pdr": 40, "pdr -t": 80}
"""Seconds for which each search for an invariant is tried at first."""
_LARGE = "pdr -t -nc"
"""Search for an invariant of a large block, with more effort for short clauses."""
TOP = "checked"
"""Name of the module that is proved."""
CUTS = {"memories": "t:$mem_v2", "multipliers": "t:$mul r:A_SIGNED=1 %i"}
"""Parts whose results can be taken to be anything in every cycle, by the cells that they are made of.

Multipliers of data are signed; those of addresses, which are not, stay.

``memory:PATTERN`` is those memories whose names match, ``memories-but:PATTERN`` those whose names do not.
"""


@dataclass(frozen=True)
class Proof:
    """Result for one rule.

    Parameters
    ----------
    rule : str
        Its name.
    status : "proved", "broken" or "open"
        Open: neither a proof nor a counterexample within the time.
    engine : str
        Method of the proof: ``signal correspondence``, ``8-induction``, or ``reachability``, which finds an inductive
        invariant and checks it.
    seconds : float
        Time that it took.
    cycles : int
        Cycles of the counterexample; 0 where there is none.
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
    """Prove a checker's rules, as many at a time as there are cores, and give the results in order.

    Parameters
    ----------
    checker : Checker
        With its rules; the handshakes are added.
    cut : collection of str
        Names from `CUTS`. What is proved holds for the whole; a counterexample may be one that the whole does not have.
    rules : collection of str
        Names of the rules to prove, beside the lemmas on which rules build; by default all.
    seconds : int
        Time for each search for an invariant, of which there are two, and for a counterexample.
    keep : Path, optional
        Folder for a counterexample's waveform, netlist and test bench: ``RULE.vcd``, ``RULE.v``, ``RULE_tb.v``.
    large : bool
        Search at once with those registers alone that a rule needs: for a block of which each needs little.

    Raises
    ------
    UserError
        If a name in `rules` is no rule of the checker, with those that are.
    """
    text, names = design_of(checker)
    if unknown := [name for name in rules if name not in names]:
        raise UserError(f"no rule called {unknown[0]!r}: choose from {', '.join(names)}")
    chosen = [name for name in names if not rules or name in rules or name in checker.lemmas]
    yield from prove_text(text, chosen, names, cut, seconds, keep, large)


def design_of(checker: Checker, emit_src: bool = False) -> tuple[str, list[str]]:
    """Write a checker, with the handshakes, as RTLIL that `prove_text` takes; and list the names of its rules.

    Parameters
    ----------
    checker : Checker
        With its rules.
    emit_src : bool
        Keep the lines of Python that made each cell.
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
    """Prove rules of a design given as RTLIL.

    Parameters
    ----------
    text : str
        A design whose top module is called `TOP`, with an output ``broken_RULE`` for each rule.
    rules, among : list of str
        Names of the rules to prove, and of all rules in the order of the outputs.
    cut, seconds, keep, large
        See `prove`.
    processes : int, optional
        Rules that are proved at a time, by default as many as there are cores.
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
    """Write a checker, given as RTLIL, as an and-inverter graph: ``model.aig``, with the names in ``model.map``.

    An output is high where its rule is broken. Registers without a reset begin with any value, see `initial`.
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
    """Commands of Yosys that read ``design.il`` and leave one module with its parts cut, of cells that can be shown."""
    return [
        "read_rtlil design.il",
        f"setattr -unset init w:* a:{FREE} %i",
        f"hierarchy -top {TOP}",
        "proc",
        "flatten",
        f"delete -output w:* w:{BROKEN}* %d",
        "opt_clean",
        "memory_collect",
        # reads become asynchronous, with registers of their own that keep their enables
        "memory_nordff",
        *(f"delete {_cells(each)}" for each in cut),
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
    """Select, as Yosys has it, the cells of a part that is left open."""
    kind, _, pattern = cut.partition(":")
    if kind in ("memory", "memories-but"):
        return f"{CUTS['memories']} r:MEMID=\\{pattern} {'%i' if kind == 'memory' else '%d'}"
    return CUTS[cut]


def _outputs(wires: Path, names: list[str]) -> dict[str, int]:
    """Numbers of the graph's outputs by the names of their rules; Yosys does not name those that are constant."""
    lines = (line.split() for line in wires.read_text(encoding="utf-8").splitlines())
    found = {line[3].removeprefix(BROKEN): int(line[1]) for line in lines if line[0] == "output"}
    constant = [name for name in names if name not in found]
    found |= zip(constant, sorted(set(range(len(names))) - set(found.values())), strict=True)
    if [found[name] for name in names] != sorted(found.values()):
        raise RuntimeError("the outputs of the graph are not in the order of the rules")
    return found


def _merge(folder: Path, seconds: int) -> None:
    """Merge the registers of the whole graph, which rules share, into `_MERGED`; one that takes too long has none."""
    commands = ["read_aiger model.aig", "fold", *_CONE, *_MERGE, f"write_aiger {_MERGED}", "print_stats"]
    if not run_abc(folder, commands, seconds):
        (folder / _MERGED).unlink(missing_ok=True)


def prove_output(folder: Path, output: int, rule: str, seconds: int, large: bool = False) -> Proof:
    """Prove that an output of the and-inverter graph ``model.aig`` in a folder is never high.

    Parameters
    ----------
    folder : Path
        With the graph, and perhaps one of merged registers; a counterexample is written to ``OUTPUT.cex``.
    output : int
        Number of the output.
    rule : str
        Its name in the result.
    seconds, large
        See `prove`.
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
    if not reduced.exists():  # the registers of two copies of a large block take longer
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
        # at the end: a rule that breaks after many cycles is found sooner by looking for no more than that
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
    """Tell whether an output that was low for `DEPTH` cycles is low in the next one.

    It may be so in a graph and not in the one in which registers are merged: there the others are merged, too, that say
    which states come first.
    """
    return "are equivalent" in run_abc(
        folder, [f"read_aiger {graph}", "strash", f"ind -F {DEPTH} -C 1000000 -T {DEPTH}"]
    )


def _searches(seconds: int) -> Iterator[str]:
    """List the searches for an invariant in the order in which they are tried, each with its time.

    The second one begins without most of the registers and brings back those that it needs: it proves rules of a large
    block that depend on little of it, such as its counters, where the first finds nothing in minutes. Others take it
    twice the time of the first, or more: so each begins with a short time.
    """
    for search, short in _SHORT.items():
        yield f"{search} -T {min(short, seconds)}"
    for search, short in _SHORT.items():
        if seconds > short:
            yield f"{search} -T {seconds}"


def _constant(graph: bytes) -> bool:
    """Tell whether an and-inverter graph with one output gives 0 always: it has neither registers nor gates."""
    header, output = graph.splitlines()[:2]
    return header.split()[3:] == [b"0", b"1", b"0"] and output == b"0"
