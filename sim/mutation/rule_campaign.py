"""Campaign of mutation testing of a part that has no bench: its faults meet the rules that are proved of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ... import __version__
from ...golden.cache import digest_of, package_version, source_digest
from ...golden.errors import UserError
from ...hw.verilog import Emitted
from ..formal.proofs import checker_of, formal_module
from ..formal.prover import TOP, design_of, prove_text
from .faults import Fault, Netlist, list_faults, mutant, prepared
from .record import Record, Result, judged, refuse_other_file


@dataclass(frozen=True)
class RuleSettings:
    """Settings of a campaign.

    Parameters
    ----------
    faults : int
        How many.
    seed : int
        Seed of the sample of faults.
    seconds : int
        Time for each search of a rule's proof, see `prover.prove`.
    """

    faults: int = 40
    seed: int = 0
    seconds: int = 60


class RuleCampaign:
    """Faults of a part, each killed by a rule that it breaks; `run` goes on where an earlier run of the same ended.

    The faults are in the cells that the part's own file made. Where all rules hold of a mutant it is equivalent if they
    fix every output in every cycle, as the formal module says with ``COMPLETE``; else it is undecided.

    Parameters
    ----------
    name : str
        The part, see `proofs.proved_names`.
    settings : RuleSettings
        The campaign's settings.
    path : Path
        File of the results; see `Record`.
    force : bool
        Start again, whatever the file holds.

    Attributes
    ----------
    record : Record
        The results.

    Raises
    ------
    UserError
        See `Record`.
    """

    def __init__(self, name: str, settings: RuleSettings, path: Path, force: bool = False) -> None:
        refuse_other_file(path, force)
        self._name, self._settings = name, settings
        self._module = formal_module(name)
        checker = checker_of(name)
        text, self._rules = design_of(checker, emit_src=True)
        text = prepared(text, TOP)
        self._made = Netlist(Emitted(TOP, "", text, {}, (), "clk", "rst", 1), text)
        self._file = f"{type(checker.block).__module__.partition('.')[2].replace('.', '/')}.py"
        header: dict[str, Any] = {
            "block": name,
            "parameters": {},
            **asdict(settings),
            "version of the RTL": digest_of(text, package_version("pyosys"), __version__),
            "version of the bench": source_digest(Path(__file__).parent.parent / "formal"),
        }
        self.record = Record(path, header, force)

    def run(self, on_result: Callable[[Result], None] = lambda _: None) -> list[Result]:
        """Run what is left of the campaign.

        Parameters
        ----------
        on_result : callable
            Called with each new result.

        Returns
        -------
        list of Result
            All results, in the order of the faults.

        Raises
        ------
        UserError
            If a rule does not hold of the part itself.
        """
        faults = list_faults(self._made, self._settings.faults, self._settings.seed, self._file)
        left = self.record.left(range(len(faults)))
        if left and (unproved := self._unproved(None)):
            raise UserError(f"{self._name} without a fault: {', '.join(unproved)} is not proved")
        self.record.keep(judged(lambda number: self._judge(number, faults[number]), left), on_result)
        return [self.record.results[number] for number in range(len(faults))]

    def _judge(self, number: int, fault: Fault) -> Result:
        start = time.monotonic()
        unproved = self._unproved(fault)
        broken = [rule for rule, status in unproved.items() if status == "broken"]
        seconds = round(time.monotonic() - start, 1)
        if broken:
            return Result(number, fault, "killed", "rule", broken[0], seconds=seconds)
        complete = not unproved and getattr(self._module, "COMPLETE", False)
        return Result(number, fault, "equivalent" if complete else "undecided", "rules", seconds=seconds)

    def _unproved(self, fault: Fault | None) -> dict[str, str]:
        """Rules that are not proved with a fault, and whether they are broken or open."""
        text, cut = mutant(self._made, fault).rtlil, getattr(self._module, "CUT", ())
        found: dict[str, str] = {}
        for proof in prove_text(text, self._rules, self._rules, cut, self._settings.seconds):
            if proof.status != "proved":
                found[proof.rule] = proof.status
        return found
