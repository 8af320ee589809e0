"""`fabtune which`."""

from __future__ import annotations

from pathlib import Path

import click

from ....golden.errors import UserError
from ...display import show_json, show_wide_table
from ...options import SectionedCommand, as_json, network_options, section


@click.command(cls=SectionedCommand, short_help="Say which cores, presets and boards take a MODEL.")
@click.argument("argument", metavar="[MODEL]", required=False)
@section("The network", network_options)
@section("Output", as_json)
def command(
    argument: str | None, model: str | None, weights: Path | None, shape: tuple[int, ...] | None, as_json: bool
) -> None:
    """Say which cores, presets and boards take a MODEL.

    For each: what it tunes, estimated cycles and memory, or why it refuses the network. MODEL, also given as --model,
    is named as for `import`, a preset, or a transformer of `cost`; file.py is run.
    """
    if argument and model:
        raise UserError(f"{argument} and --model {model} both name the network: give one of them")
    if not (named := argument or model):
        raise UserError("name the network: fabtune which FILE.py:BUILD, FILE.onnx, FILE.pt2, FOLDER or a preset")
    from ...imports.which import run, show
    from ...own_network import OwnNetwork

    result = run(OwnNetwork(named, weights, shape))
    if as_json:
        show_json(result)
    else:
        show(result, show_wide_table, click.echo)
