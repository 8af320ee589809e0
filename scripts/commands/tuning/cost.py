"""`fabtune cost`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from ....golden.errors import UserError
from ...display import show_json, show_wide_table
from ...heartbeat import doing
from ...options import SectionedCommand, as_json, network_options, option, refuse_options, section

_TRANSFORMER = (
    option("--sentences", type=click.IntRange(1, 256), default=16, show_default=True, help="Sentences of a step."),
    option("--tokens", type=click.IntRange(1, 100_000), default=32, show_default=True, help="Tokens of each sentence."),
    option(
        "--from-layer", type=click.IntRange(0), default=0, help="First layer that is tuned; a cache has what is below."
    ),
    option(
        "--array", "arrays", metavar="LANESxCOLUMNS", multiple=True, help="Another array, on paper; may be repeated."
    ),
    option(
        "--measure", metavar="PRESET", help="Simulate the step on this core's RTL: cycles by operation, in minutes."
    ),
)


@click.command(cls=SectionedCommand, short_help="Count what each method costs on a NETWORK.")
@click.argument("network", metavar="[NETWORK]", required=False)
@section("The network", network_options)
@section("A transformer: a folder of the library transformers, or its sizes", *_TRANSFORMER)
@section("Method", option("--rank", type=click.IntRange(1), default=4, show_default=True, help="Rank of the adapters."))
@section("Output", as_json)
def command(
    network: str | None,
    model: str | None,
    weights: Path | None,
    shape: tuple[int, ...] | None,
    sentences: int,
    tokens: int,
    from_layer: int,
    arrays: tuple[str, ...],
    measure: str | None,
    rank: int,
    as_json: bool,
) -> None:
    """Count the cost of each method on a NETWORK: parameters, operations and bytes of a sample.

    NETWORK is a preset, by default lenet5-mnist, or a network in one line, as printed by `fabtune import`.

    For a transformer, memory and time of a step of zeroth-order training are computed on each core preset that runs the
    model, or with the reason why a preset does not. A transformer is --model FOLDER with its config.json, --model
    FILE.gguf, or one of minilm, roberta-large, opt-125m, opt-1.3b, smollm2-135m, llama-2-7b, vit-digits, mlp-20m.
    """
    from ....golden.train.adapters.cost_model import cost
    from ....golden.train.adapters.methods import METHODS
    from ....golden.transformer.sample_model import TRANSFORMERS
    from ...own_network import OwnNetwork
    from ...tuning.transformer_cost import NAMES, TransformerCost, is_transformer, show

    if network and model:
        raise UserError(f"{network} and --model {model} both name the network: give one of them")
    if (named := network or model) and is_transformer(named):
        refuse_options(["weights", "shape", "rank"], f"a transformer: {named}")
        if measure:
            refuse_options(["from_layer"], f"--measure {measure}, which simulates all layers")
        if named in TRANSFORMERS:
            refuse_options(["tokens"], f"{named}, whose samples have a number of tokens")
        asked = TransformerCost(named, sentences, tokens, from_layer, tuple(dict.fromkeys(arrays)), measure)
        result = asked.run(lambda stage: doing(f"cost {named}: {stage}"))
        if as_json:
            show_json(result)
        else:
            show(result, show_wide_table, click.echo)
        return
    refuse_options(["sentences", "tokens", "from_layer", "arrays", "measure"], "a network that is no transformer")
    if weights:
        refuse_options(["weights"], "cost, which does not depend on them")
    named = network or model or "lenet5-mnist"
    own = OwnNetwork(named, shape=shape)
    own.refuse_word(NAMES)
    chosen, _ = own.built()
    costs = {name: dataclasses.asdict(cost(chosen, method, rank)) for name, method in METHODS.items()}
    if as_json:
        show_json({"network": named, "rank": rank, "methods": costs})
        return
    columns = ("method", *(name.replace("_", " ") for name in next(iter(costs.values()))))
    rows = [(name, *("-" if value is None else f"{value:,}" for value in row.values())) for name, row in costs.items()]
    show_wide_table(columns, rows, title=named)
