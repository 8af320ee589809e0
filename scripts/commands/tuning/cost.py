"""`fabtune cost`."""

from __future__ import annotations

import dataclasses

import click

from ...display import show_json, show_table
from ...options import SectionedCommand, as_json, option


@click.command(cls=SectionedCommand, short_help="Count what each method costs on a NETWORK.")
@click.argument("network", default="lenet5-mnist", metavar="[NETWORK]")
@option("--rank", type=click.IntRange(1), default=4, show_default=True, help="Rank of the adapters.")
@as_json
def command(network: str, rank: int, as_json: bool) -> None:
    """Count what each method costs on a NETWORK: parameters, operations and bytes of a sample."""
    from ....golden.models.presets import preset
    from ....golden.train.adapters.cost_model import cost
    from ....golden.train.adapters.methods import METHODS

    chosen = preset(network)
    costs = {name: dataclasses.asdict(cost(chosen, method, rank)) for name, method in METHODS.items()}
    if as_json:
        show_json({"network": network, "rank": rank, "methods": costs})
        return
    columns = ("method", *(name.replace("_", " ") for name in next(iter(costs.values()))))
    rows = [(name, *("-" if value is None else f"{value:,}" for value in row.values())) for name, row in costs.items()]
    show_table(columns, rows, title=network, piped_width=400)
