"""`fabtune mutate`."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ....golden.files import refuse_unwritable
from ...display import show_json, show_table
from ...options import FILE, SectionedCommand, as_json, block, option, refuse_options, section, spec_of

if TYPE_CHECKING:
    from ....mutation.record import Score

RECORDS = Path("build/mutation")
_OPTIONS = (
    *("preset", "settings", "model", "weights", "shape", "faults", "seed"),
    *("components", "simulator", "words", "seconds", "output", "force"),
)
"""Options of a campaign; the summary takes none."""


@click.command(cls=SectionedCommand, short_help="Put faults into the RTL and count those that are seen.")
@section("Block", block(required=False))
@section(
    "Faults",
    option(
        "--faults", type=click.IntRange(1, 100_000), default=40, show_default=True, help="Number of faults, sampled."
    ),
    option(
        "--seed", type=click.IntRange(0, (1 << 31) - 1), default=0, show_default=True, help="Seed of sample and bench."
    ),
    option(
        "--component",
        "components",
        multiple=True,
        metavar="FILE",
        help="A sample of the cells that this file makes, for instance hw/nn/mac.py; may be repeated.",
    ),
)
@section(
    "Detection",
    option("--simulator", default="icarus", show_default=True, metavar="verilator|icarus"),
    option("--words", type=click.IntRange(1, 10_000_000), default=1000, show_default=True, help="Words of a job."),
    option(
        "--seconds",
        type=click.IntRange(1, 86400),
        default=60,
        show_default=True,
        help="Time for a proof that a fault shows nowhere.",
    ),
)
@section(
    "Output",
    option(
        "-o", "output", type=FILE, help="File of the results, which is continued; default build/mutation/BLOCK.jsonl."
    ),
    option("--force", is_flag=True, help="Start again where the file is there."),
    as_json,
)
def command(
    block: str | None,
    settings: tuple[str, ...],
    preset: str | None,
    faults: int,
    seed: int,
    components: tuple[str, ...],
    simulator: str,
    words: int,
    seconds: int,
    output: Path | None,
    force: bool,
    as_json: bool,
    **own: Any,
) -> None:
    """Put single faults into a block's RTL and count the faults that its bench detects.

    Each fault changes one bit at one cell. A mutant that passes the bench is compared with the block by a proof for all
    inputs; an equivalent mutant does not count. Results are saved one by one, and a second run continues the first.
    Exit status 1 if a fault survived or is undecided: neither detected nor proved equivalent.

    A submodule with rules but without a bench, such as rounding, is proved with each fault: a broken rule kills the
    fault.

    A whole core runs jobs in the compiled simulator, also with fault-injecting buses, and commands near every limit. A
    surviving fault is equivalent if a proof finds that no run can show the fault, and undecided otherwise.

    Without BLOCK the results so far of all blocks are printed, as a table in Markdown.
    """
    from ....golden.cores.core import CoreSpec
    from ....golden.registry import BLOCKS
    from ....mutation.block_campaign import BlockCampaign, BlockSettings
    from ....mutation.campaign import Campaign
    from ....mutation.core_campaign import CoreCampaign, CoreSettings
    from ....mutation.record import Result, score_of, scores_by_component
    from ....mutation.rule_campaign import RuleCampaign, RuleSettings
    from ....mutation.summary import summary
    from ....sim.formal.proofs import proved_names

    if block is None:
        refuse_options((*_OPTIONS, "as_json"), "no BLOCK")
        click.echo(summary(RECORDS))
        return
    path = output or RECORDS / f"{block}.jsonl"
    refuse_unwritable(path)
    campaign: Campaign[Any]
    if block in set(proved_names()) - set(BLOCKS):
        of_blocks = ("preset", "settings", "model", "weights", "shape", "components", "simulator", "words")
        refuse_options(of_blocks, f"{block}, a part that is proved")
        campaign = RuleCampaign(block, RuleSettings(faults, seed, seconds), path, force)
    elif isinstance(spec := spec_of(block, settings, preset, **own), CoreSpec) and spec.part("sim", "trials", "TRIALS"):
        refuse_options(("simulator", "words", "seconds"), f"{block}, a whole core")
        campaign = CoreCampaign(spec, CoreSettings(faults, seed, components), path, force)
    else:
        campaign = BlockCampaign(spec, BlockSettings(faults, seed, words, seconds, simulator, components), path, force)

    def tell(result: Result) -> None:
        if not as_json:
            by = f" by {result.by}" if result.by else ""
            click.echo(f"{block} {result.number}: {result.status}{by}, {result.seconds:.1f} s", err=True)

    results = campaign.run(tell)
    score = score_of(results)
    if as_json:
        described = [{**dataclasses.asdict(result), "description": str(result.fault)} for result in results]
        parts = {name: _told(score_of_file) for name, score_of_file in scores_by_component(results).items()}
        show_json({"block": block, **_told(score), "components": parts, "results": described})
    else:
        rows = {block: score, **scores_by_component(results)}
        show_table(
            ("block, component", "faults", "killed", "equivalent", "undecided", "survived", "score", "killed by"),
            [_row(name, row) for name, row in rows.items()],
        )
        for result in results:
            if result.status in ("survived", "undecided"):
                shown = f", shown in {result.cycles} cycles" if result.cycles else ""
                click.echo(f"{result.status}: {result.number}: {result.fault}, cell {result.fault.cell}{shown}")
    sys.exit(1 if score.survived or score.undecided else 0)


def _told(score: Score) -> dict[str, Any]:
    return {**dataclasses.asdict(score), "score": score.score}


def _row(name: str, score: Score) -> tuple[str, ...]:
    by = ", ".join(f"{count} {kind}" for kind, count in score.by.items())
    counts = (score.faults, score.killed, score.equivalent, score.undecided, score.survived)
    return (name, *map(str, counts), f"{score.score:.1%}", by)
