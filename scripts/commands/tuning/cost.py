"""`fabtune cost`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from ....golden.errors import UserError
from ...display import show_json, show_table
from ...options import SectionedCommand, as_json, network_options, option, refuse_options, section


@click.command(cls=SectionedCommand, short_help="Count what each method costs on a NETWORK.")
@click.argument("network", metavar="[NETWORK]", required=False)
@section("The network", network_options)
@section("Method", option("--rank", type=click.IntRange(1), default=4, show_default=True, help="Rank of the adapters."))
@section("Output", as_json)
def command(
    network: str | None,
    model: str | None,
    weights: Path | None,
    shape: tuple[int, ...] | None,
    rank: int,
    as_json: bool,
) -> None:
    """Count what each method costs on a NETWORK: parameters, operations and bytes of a sample.

    NETWORK is a preset, by default lenet5-mnist, or a network as one line, as `fabtune import` prints it.
    """
    from ....golden.train.adapters.cost_model import cost
    from ....golden.train.adapters.methods import METHODS
    from ...own_network import OwnNetwork

    if network and model:
        raise UserError(f"{network} and --model {model} both name the network: give one of them")
    if weights:
        refuse_options(["weights"], "cost, which does not depend on them")
    named = network or model or "lenet5-mnist"
    chosen, _ = OwnNetwork(named, shape=shape).built()
    costs = {name: dataclasses.asdict(cost(chosen, method, rank)) for name, method in METHODS.items()}
    if as_json:
        show_json({"network": named, "rank": rank, "methods": costs})
        return
    columns = ("method", *(name.replace("_", " ") for name in next(iter(costs.values()))))
    rows = [(name, *("-" if value is None else f"{value:,}" for value in row.values())) for name, row in costs.items()]
    show_table(columns, rows, title=named, piped_width=400)
