"""`fabtune federate`."""

from __future__ import annotations

import sys
from typing import Any

import click

from ...display import show_json, show_table
from ...options import FILE, SEED, CoreOption, SectionedCommand, as_json, option, refuse_options, section, start

OF_NETWORKS = ("network", "weights", "shape", "pretrain", "scale", "drift", "stage", "core", "simulated")
"""Options only for networks."""
OF_TEXT = ("shots", "base", "prompt", "cut", "sensitive", "generic")
"""Options only for text."""


@click.command(cls=SectionedCommand, short_help="Fine-tune on clients that upload integer scalars.")
@section("Samples and network", start)
@section(
    "Federation",
    option("--rounds", type=int, default=5, show_default=True, help="Rounds of the federation."),
    option("--clients", type=int, default=10, show_default=True, help="Clients in all."),
    option("--fraction", type=float, default=0.2, show_default=True, help="Fraction of the clients in a round."),
    option(
        "--alpha", type=float, default=1.0, show_default=True, help="Of the Dirichlet split; small is uneven, inf even."
    ),
    option("--steps", type=int, default=12, show_default=True, help="Steps of a client in a round."),
    option("--batch", type=int, default=20, show_default=True, help="Samples of a step."),
    option("--seed", type=SEED, default=0, show_default=True, help="Seed of all random numbers."),
    option(
        *("--fault-injection", "--mishaps", "fault_injection"),
        is_flag=True,
        help="One client drops out, and in each round one sends a damaged message first.",
    ),
)
@section(
    "FedSPZO",
    option("--rate", type=float, help="Learning rate; by default one that suits the network."),
    option("--eps", type=float, help="Length of a perturbation, by default 0.001; with a core 2**-10."),
    option("--first", type=int, default=2, show_default=True, metavar="P1", help="Perturbations of the first part."),
    option("--second", type=int, default=8, show_default=True, metavar="P2", help="Of the second, for each of them."),
    option("--stage", type=click.IntRange(0), help="Layer of the cut; by default where it should save most."),
    option(
        "--core",
        cls=CoreOption,
        names=("FEDERATION",),
        help="Weights in the order of this preset of a core, so that cores take part.",
    ),
    option("--simulated", type=click.IntRange(0), default=0, help="Clients, the first ones, that are simulated cores."),
    option("--generator", default="otf8", show_default=True, metavar="NAME", help="A preset of pezo."),
)
@section(
    "Text: --data sst-2, trec, csv:FOLDER ..., --model FOLDER of a transformer, or a .gguf, in the hardware's integers",
    option("--shots", type=click.IntRange(1), help="Sentences a class, of all clients together; by default 16."),
    option("--base", metavar="nf4|18-bit", help="Frozen matrices of the model, by default nf4."),
    option("--prompt", metavar="label-words|sentences", help="By default label words where the model has such a head."),
    option("--cut", metavar="NAME", help="Layer or operation of the cut; by default where it should save most."),
    option("--sensitive", type=float, metavar="SHARE", help="Tune this share of the weights, the most sensitive ones."),
    option("--generic", type=FILE, help="Text that chooses them, by default tinyshakespeare in --data-dir."),
)
@section(
    "Baselines",
    option("--alone", is_flag=True, help="Leave out the baselines: FedZO and FedAvg, on text also DeComFL."),
    option("--plain-rate", type=float, help="Learning rate of plain federated zeroth order (FedZO)."),
    option("--fedavg-rate", type=float, help="Learning rate of FedAvg, on text of its LoRA."),
)
@section(
    "Output",
    option("--plot", type=FILE, help="Held-out loss and accuracy by forward work: .png, .svg or .pdf."),
    option("--force", is_flag=True, help="Replace this file."),
    as_json,
)
def command(as_json: bool, **options: Any) -> None:
    """Fine-tune on several clients that upload integer scalars; the server rebuilds their models bit for bit."""
    if options["sensitive"] is None:
        refuse_options(["generic"], "all weights tuned")
    if options["alone"]:
        refuse_options(["plain_rate", "fedavg_rate"], "--alone")
    from rich.console import Console

    from ....golden.train.text.tasks import is_text
    from ...federate import FederateRequest, run
    from ...start import origin_of

    refuse_options(OF_NETWORKS if is_text(options["data"]) else OF_TEXT, f"--data {options['data']}")

    result = run(FederateRequest(**options), Console(stderr=True))
    if result["warning"]:
        click.echo(f"fabtune: warning: {result['warning']}", err=True)
    if as_json:
        show_json(result)
    else:
        click.echo(origin_of(result))
        rows = []
        for name, figures in {"FedSPZO": result, **result["baselines"]}.items():
            before, after = (f"{100 * figures[f'accuracy_{when}']:.1f}" for when in ("before", "after"))
            counts = (f"{figures[what]:,}" for what in ("upload_bytes", "forward_flops"))
            rows.append((name, before, after, f"{figures['loss_after']:.3f}", *counts))
        show_table(("", "right before %", "after %", "loss after", "upload bytes", "forward operations"), rows)
        for refusal in result["refused"]:
            click.echo(f"refused: {refusal}")
        equal = "equal in every bit" if result["bit_identical"] else "NOT EQUAL"
        click.echo(f"models of the clients and the server's, rebuilt from integer scalars: {equal}")
    sys.exit(0 if result["bit_identical"] else 1)
