"""`fabtune prove`."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ....golden.errors import UserError
from ....golden.files import refuse_unwritable
from ...display import show_json, show_table
from ...heartbeat import doing
from ...options import PATH, SectionedCommand, as_json, network_options, option, section, spec_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ....sim.formal.prover import Proof


@click.command(cls=SectionedCommand, short_help="Prove rules of blocks for all inputs.")
@click.argument("names", metavar="[BLOCK]...", nargs=-1)
@section(
    "Block",
    option("--preset", metavar="NAME", help="Named parameters of the one BLOCK."),
    option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A parameter of it; may be repeated."),
    network_options,
)
@section(
    "Proof",
    option("--rule", "rules", multiple=True, metavar="NAME", help="A rule of the one BLOCK; by default all."),
    option(
        "--seconds",
        type=click.IntRange(1, 86400),
        default=120,
        show_default=True,
        help="Time for each search for a proof.",
    ),
    option("--counterexamples", type=PATH, metavar="DIR", help="New folder for waveforms and failing test benches."),
)
@section("Output", as_json)
def command(
    names: tuple[str, ...],
    preset: str | None,
    settings: tuple[str, ...],
    rules: tuple[str, ...],
    seconds: int,
    counterexamples: Path | None,
    as_json: bool,
    **own_network: Any,
) -> None:
    """Prove rules of blocks for all inputs: handshakes, no word lost or made, no deadlock, AXI.

    Without BLOCK all blocks with rules are proved, by default with small parameters that include all control logic of
    the block. Exit status 1 if a rule is broken, or not proved in its time.
    """
    from ....sim.formal.proofs import formal_module, prove_block, prove_blocks, proved_names

    described = preset or settings or any(own_network.values())
    if len(names) != 1 and (described or rules):
        raise UserError("--preset, --set, --model and --rule are for one BLOCK: name it")
    if counterexamples and counterexamples.exists():
        raise UserError(f"{counterexamples} exists: name another folder for the counterexamples")
    if counterexamples:
        refuse_unwritable(counterexamples / "rule.vcd")
    chosen = list(names) or proved_names()
    for name in chosen:
        formal_module(name)
    if len(chosen) == 1:
        doing(f"prove {chosen[0]}")
        spec = spec_of(chosen[0], settings, preset, **own_network) if described else None
        keep = counterexamples and counterexamples / chosen[0]
        proofs: Iterator[tuple[str, Proof]] = (
            (chosen[0], proof) for proof in prove_block(chosen[0], spec, rules, seconds, keep)
        )
    else:
        doing(f"prove {len(chosen)} blocks and parts")
        proofs = prove_blocks(chosen, seconds, counterexamples)
    results = []
    for name, proof in proofs:
        results.append((name, proof))
        if not as_json:
            click.echo(f"{name}: {proof.rule}: {_told(proof)}, {proof.seconds:.1f} s", err=True)
    if as_json:
        show_json({"proofs": [{"block": name, **dataclasses.asdict(proof)} for name, proof in results]})
    else:
        rows = []
        for name in chosen:
            own_proofs = [proof for block, proof in results if block == name]
            count = {
                status: sum(proof.status == status for proof in own_proofs) for status in ("proved", "broken", "open")
            }
            failing = ", ".join(proof.rule for proof in own_proofs if proof.status != "proved")
            rows.append((name, *map(str, count.values()), failing, f"{sum(proof.seconds for proof in own_proofs):.1f}"))
        show_table(("block", "proved", "broken", "open", "not proved", "seconds"), rows)
    sys.exit(0 if all(proof.status == "proved" for _, proof in results) else 1)


def _told(proof: Proof) -> str:
    how = {"proved": f" by {proof.engine}", "broken": f" in cycle {proof.cycles - 1}", "open": ""}
    return proof.status + how[proof.status]
