"""Mutation campaign of a submodule without a bench: its proved rules must detect the faults."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..golden.cache import source_digest
from ..golden.errors import UserError
from ..hw.verilog import Emitted
from ..sim.formal.proofs import checker_of, formal_module
from ..sim.formal.prover import TOP, design_of, prove_text
from .campaign import Campaign, CampaignSettings
from .faults import CellFault, CellNetlist, mutant, prepared
from .record import Result, judged


@dataclass(frozen=True)
class RuleSettings(CampaignSettings):
    """Settings of a campaign with rules; `seconds` limits each search in a rule's proof, see `prover.prove`."""

    seconds: int = 60


class RuleCampaign(Campaign[RuleSettings]):
    """Faults of submodule `name`, see `proofs.proved_names`, each killed by a rule that it breaks.

    Faults are in the cells created by the submodule's own file. A mutant that satisfies all rules is equivalent if the
    formal module sets ``COMPLETE``, that is, if the rules fix every output in every cycle; otherwise it is undecided.
    """

    def __init__(self, name: str, settings: RuleSettings, path: Path, force: bool = False) -> None:
        self._name, self._module, self._checker = name, formal_module(name), checker_of(name)
        self._components = (f"{type(self._checker.block).__module__.partition('.')[2].replace('.', '/')}.py",)
        super().__init__(name, {}, settings, path, force)

    def _netlist(self) -> CellNetlist:
        text, self._rules = design_of(self._checker, emit_src=True)
        text = prepared(text, TOP)
        return CellNetlist(Emitted(TOP, "", text, {}, (), "clk", "rst", 1), text)

    def _bench(self) -> str:
        return source_digest(Path(__file__).parents[1] / "sim" / "formal")

    def _run(self, faults: Sequence[CellFault], on_result: Callable[[Result], None]) -> None:
        numbers = self.record.left(range(len(faults)))
        if numbers and (unproved := self._unproved(None)):
            raise UserError(f"{self._name} without a fault: {', '.join(unproved)} is not proved")
        self.record.keep(judged(lambda number: self._judge(number, faults[number]), numbers), on_result)

    def _judge(self, number: int, fault: CellFault) -> Result:
        start = time.monotonic()
        unproved = self._unproved(fault)
        broken = [rule for rule, status in unproved.items() if status == "broken"]
        seconds = round(time.monotonic() - start, 1)
        if broken:
            return Result(number, fault, "killed", "rule", broken[0], seconds=seconds)
        complete = not unproved and getattr(self._module, "COMPLETE", False)
        return Result(number, fault, "equivalent" if complete else "undecided", "rules", seconds=seconds)

    def _unproved(self, fault: CellFault | None) -> dict[str, str]:
        """Status, broken or open, of the unproved rules with a fault."""
        text, cut = mutant(self._made, fault).rtlil, getattr(self._module, "CUT", ())
        statuses: dict[str, str] = {}
        for proof in prove_text(text, self._rules, self._rules, cut, self._settings.seconds):
            if proof.status != "proved":
                statuses[proof.rule] = proof.status
        return statuses
