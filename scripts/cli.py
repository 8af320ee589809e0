"""The command line. Each command reads its arguments, calls one function and prints the result."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
from rich.console import Console
from rich.table import Table

from .. import __version__
from ..golden.block import Spec
from ..golden.errors import UserError
from ..golden.registry import BLOCKS
from ..golden.settings import build, fields_of
from .tables import TABLES


class Commands(click.Group):
    """A mistake of the user's is one line on stderr and exit status 2."""

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run a command and leave."""
        try:
            sys.exit(super().main(*args, **{**kwargs, "standalone_mode": False}))
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
        except click.ClickException as error:
            self._say(" ".join(error.format_message().split()))
        except click.Abort:
            self._say("interrupted")
        except UserError as error:
            self._say(str(error))
        except OSError as error:
            self._say(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "))
        sys.exit(2)

    @staticmethod
    def _say(what: str) -> None:
        click.echo(f"fabtune: {what}", err=True)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fabtune")
def main() -> None:
    """FPGA hardware that fine-tunes neural networks, proved bit by bit against a fixed-point model."""


Command = Callable[..., None]


def as_json(command: Command) -> Command:
    """``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")(command)


def with_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several, in the order in which the help lists them."""
    return lambda command: reduce(lambda done, option: option(done), reversed(options), command)


def with_spec(required: bool = True) -> Callable[[Command], Command]:
    """``BLOCK``, ``--preset`` and ``--set``."""
    return with_options(
        click.argument("block", metavar="BLOCK" if required else "[BLOCK]", required=required),
        click.option("--preset", metavar="NAME", help="Named parameters to start from (see `fabtune list`)."),
        click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A parameter; may be repeated."),
    )


_FILE = click.Path(path_type=Path, dir_okay=False)
_DATA_DIR = click.option("--data-dir", type=click.Path(path_type=Path), help="Folder with the data's files.")

with_start = with_options(
    click.option("--network", metavar="NAME", help="A preset; by default the one that goes with the data."),
    click.option("--model", metavar="FILE.py:BUILD", help="Your own torch.nn.Sequential; FILE.py is run."),
    click.option("--weights", type=_FILE, help="Its state dict; by default it is pre-trained and kept."),
    click.option("--data", default="digits", show_default=True, metavar="NAME|npz:FILE", help="Samples."),
    _DATA_DIR,
    click.option("--drift", metavar="none|camera|rotate:DEG", help="By default camera for digits, else none."),
)
"""Samples, a network and its weights; see `Start`."""


def spec_of(block: str, settings: tuple[str, ...], preset: str | None) -> Spec:
    """The spec that the arguments describe."""
    if block not in BLOCKS:
        raise UserError(f"there is no block {block!r}; there are: {', '.join(BLOCKS)}")
    return build(BLOCKS[block], settings, preset)


def show_json(value: Any) -> None:
    """One JSON object on stdout; no NaN or infinity, which JSON has not."""
    click.echo(json.dumps(value, allow_nan=False))


@main.command("list")
@as_json
def list_blocks(as_json: bool) -> None:
    """List the blocks, their parameters and presets."""
    listing: dict[str, dict[str, Any]] = {
        name: {
            "summary": kind.summary,
            "parameters": {path: _plain(_default(kind(), path)) for path in fields_of(kind)},
            "presets": kind.presets,
        }
        for name, kind in BLOCKS.items()
    }
    if as_json:
        show_json(listing)
        return
    table = Table("block", "what it is", "parameters", "presets", show_lines=True)
    for name, entry in listing.items():
        parameters = "\n".join(f"{path} = {_short(value)}" for path, value in entry["parameters"].items())
        table.add_row(name, str(entry["summary"]), parameters, "\n".join(entry["presets"]))
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def _default(spec: Spec, path: str) -> Any:
    value: Any = spec
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _short(value: Any) -> str:
    return f"{len(value)} values" if isinstance(value, list) and len(value) > 4 else str(value)


@main.command()
@with_spec()
@click.option("--board", metavar="zcu102|kv260", help="The board.")
@click.option("--output", "-o", type=click.Path(path_type=Path), help="Folder to write, by default build/BLOCK.")
@click.option("--top", metavar="NAME", help="Name of the top module, by default the block's.")
@click.option("--mhz", type=float, default=200.0, show_default=True, help="Clock that synthesis is asked for.")
@click.option("--force", is_flag=True, help="Replace the folder's files of the same names.")
@as_json
def emit(
    block: str,
    settings: tuple[str, ...],
    preset: str | None,
    board: str | None,
    output: Path | None,
    top: str | None,
    mhz: float,
    force: bool,
    as_json: bool,
) -> None:
    """Write a block's Verilog and memory contents, and for a board its constraints and Vivado scripts."""
    from ..boards.vivado.package import package, write

    files = package(spec_of(block, settings, preset), board, top, mhz)
    folder = output or Path("build") / block
    written = write(files, folder, force)
    if as_json:
        show_json({"folder": str(folder), "files": written})
    else:
        for name in written:
            click.echo(folder / name)


@main.command()
@with_spec()
@click.option("--simulator", default="verilator", show_default=True, metavar="verilator|icarus")
@click.option("--words", type=click.IntRange(1, 10_000_000), default=1000, show_default=True, help="Words of a job.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the stimulus and the stalls.")
@click.option("--waves", type=click.Path(path_type=Path, dir_okay=False), help="Where to keep the waveforms.")
@as_json
def verify(
    block: str,
    settings: tuple[str, ...],
    preset: str | None,
    simulator: str,
    words: int,
    seed: int,
    waves: Path | None,
    as_json: bool,
) -> None:
    """Simulate a block and compare every bit with the golden model. Exit status 1 on any difference."""
    from ..sim.verify import verify as run

    verdict = run(spec_of(block, settings, preset), simulator, words, seed, waves=waves)
    if as_json:
        show_json(dataclasses.asdict(verdict))
    else:
        click.echo(
            f"{block} on {simulator}: {verdict.compared} numbers compared in {verdict.cycles} cycles, "
            f"{verdict.mismatches} differ"
        )
    for complaint in (*verdict.differences, *verdict.failures):
        click.echo(complaint, err=True)
    sys.exit(0 if verdict.passed else 1)


@main.command()
@with_spec(required=False)
@click.option("--verilog", type=click.Path(path_type=Path), multiple=True, help="Anyone's Verilog; may be repeated.")
@click.option("--top", metavar="NAME", help="Its top module.")
@click.option("--board", default="zcu102", show_default=True, metavar="zcu102|kv260", help="The board.")
@as_json
def estimate(
    block: str | None,
    preset: str | None,
    settings: tuple[str, ...],
    verilog: tuple[Path, ...],
    top: str | None,
    board: str,
    as_json: bool,
) -> None:
    """Estimate LUTs, FFs, memories and DSPs with open synthesis, for a block or for your own Verilog."""
    from ..boards.board import board as board_of
    from ..boards.estimate.estimate import estimate_spec, estimate_verilog

    if bool(block) == bool(verilog):
        raise UserError("give either a BLOCK or --verilog FILE --top NAME")
    target = board_of(board)
    if verilog:
        if not top:
            raise UserError("--verilog needs --top NAME, the module to estimate")
        if settings or preset:
            raise UserError("--set and --preset belong to a BLOCK, not to --verilog")
        result = estimate_verilog(verilog, top)
    else:
        result = estimate_spec(spec_of(str(block), settings, preset))
    shares = target.utilisation(result.resources)
    if as_json:
        show_json(
            {
                "resources": result.resources,
                "utilisation": shares,
                "logic_levels": result.logic_levels,
                "carry_cells": result.carry_cells,
                "raw": result.raw,
                "board": target.name,
            }
        )
        return
    table = Table("resource", "estimate", f"% of {target.name}", "raw count")
    for name, count in result.resources.items():
        share = shares[name]
        percent = "none there" if share is None else f"{share:.3f}"
        table.add_row(name, f"{count:g}", percent, str(result.raw.get(name, "")))
    Console().print(table)
    click.echo(f"logic levels {result.logic_levels}, carry cells {result.carry_cells}; open synthesis, not Vivado")


@main.command()
@with_spec()
@click.argument("capture", type=click.Path(path_type=Path))
@click.option("--skip", type=click.IntRange(0), default=0, help="Golden's words before the capture's first.")
@click.option("--drop", type=click.IntRange(0), default=0, help="The capture's words before golden's first.")
@as_json
def compare(
    block: str,
    settings: tuple[str, ...],
    preset: str | None,
    capture: Path,
    skip: int,
    drop: int,
    as_json: bool,
) -> None:
    """Hold a CAPTURE (CSV, hex words or NPZ) against golden. Exit status 1 on any difference."""
    from ..hw.top import ports_of
    from ..sim.captures.capture import read_capture
    from ..sim.captures.compare import compare as hold

    spec = spec_of(block, settings, preset)
    comparison = hold(spec, read_capture(capture, spec, ports_of(spec)), skip, drop)
    agreed = comparison.compared - comparison.mismatches
    if as_json:
        show_json(
            {
                "compared": comparison.compared,
                "agreed": agreed,
                "mismatches": comparison.mismatches,
                "differences": comparison.differences,
                "hint": comparison.hint,
            }
        )
    else:
        click.echo(f"{capture}: {agreed} of {comparison.compared} numbers agree")
        context = comparison.first.lines() if comparison.first else comparison.differences
        for line in (*context, *filter(None, [comparison.hint])):
            click.echo(line)
    sys.exit(0 if comparison.passed else 1)


@main.command()
@as_json
def doctor(as_json: bool) -> None:
    """Say which tools are there, in which version, and what to type for those that are not."""
    from .doctor import checks

    found = checks()
    if as_json:
        show_json({check.name: dataclasses.asdict(check) for check in found})
    else:
        table = Table("tool", "version", "needed for", "what to type")
        for check in found:
            state = check.version or "yes" if check.found else "missing"
            table.add_row(check.name, state, check.needed_for, "" if check.found else check.remedy)
        Console().print(table)
    sys.exit(1 if any(check.required and not check.found for check in found) else 0)


@main.command()
@with_start
@click.option("--method", default="instantft", show_default=True, metavar="NAME", help="See `fabtune cost`, and above.")
@click.option("--engine", metavar="golden|float|rtl", help="Integers, the default where there are any; float32; core.")
@click.option("--epochs", type=click.IntRange(1), help="Of fine-tuning; by default the paper's.")
@click.option("--batch", type=click.IntRange(1), help="Samples of a batch; by default 20, of a transformer 16.")
@click.option("--rate", type=float, help="Learning rate on the mean of a batch; by default one that suits.")
@click.option("--rank", type=click.IntRange(1), default=4, show_default=True, help="Of the adapters.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of everything random.")
@click.option("--stochastic", is_flag=True, help="Round updates with the numbers of urng, not to nearest.")
@click.option("--core", default="small", show_default=True, metavar="small|fast|chip", help="Of --engine rtl.")
@click.option("--pretrain-epochs", type=click.IntRange(1), help="By default the paper's.")
@click.option("--pretrain-rate", type=float, help="Learning rate of pre-training.")
@click.option("--output", "-o", type=_FILE, help="What was tuned, by default build/tune/DATA-METHOD.safetensors.")
@click.option("--plot", type=_FILE, help="Loss and held-out accuracy: .png, .svg or .pdf.")
@click.option("--force", is_flag=True, help="Replace these files.")
@click.option("--steps", type=click.IntRange(1), help="Zeroth order: how many; by default some that suit.")
@click.option("--eps", type=float, default=1e-3, show_default=True, help="Zeroth order: length of a perturbation.")
@click.option("--queries", type=click.IntRange(1), default=1, show_default=True, help="Perturbations of a step.")
@click.option("--generator", metavar="NAME", help="gaussian, rademacher, uniform, integers, or a preset of pezo.")
@click.option("--set", "parameters", multiple=True, metavar="NAME=VALUE", help="A parameter of a preset of pezo.")
@click.option("--mask", default="generic", show_default=True, metavar="generic|task|random", help="Of sparse-zo.")
@click.option("--fraction", type=float, default=0.001, show_default=True, help="Of the weights, that sparse-zo tunes.")
@click.option("--shots", type=click.IntRange(1), default=16, show_default=True, help="Sentences a class; of text.")
@click.option("--generic", type=_FILE, help="Text for the generic mask, by default tinyshakespeare in --data-dir.")
@click.option("--precision", default="float32", show_default=True, metavar="float32|bfloat16", help="Of a transformer.")
@as_json
def tune(as_json: bool, **options: Any) -> None:
    """Fine-tune a network, or a transformer on a few sentences.

    On drifted data with adapters: in float, in the hardware's integers, or in its RTL. Or with zeroth order, in float
    or in integers that wrap, with the hardware's perturbations: mezo, pezo-pool, pezo-otf, sparse-zo. --data sst-2,
    sst-5, trec or csv:FOLDER is text; --model is then the FOLDER of a transformer.
    """
    from ..golden.train.adapters.methods import METHODS

    if options["method"] not in METHODS:
        from . import zeroth

        result = zeroth.run(_request(zeroth.Request, options), Console(stderr=True))
        show_json(result) if as_json else click.echo(zeroth.said(result))
        return
    from .tune import Request, run

    result = run(_request(Request, options), Console(stderr=True))
    if as_json:
        show_json(result)
        return
    before, after = (100 * result[f"accuracy_{when}"] for when in ("before", "after"))
    click.echo(
        f"{result['method']} on {result['data']}, {result['engine']}: {before:.1f}% right before, {after:.1f}% after, "
        f"in {result['seconds']} s; cache {result['cache_bytes']} bytes, {result['saturations']} values clipped"
    )
    if "cycles" in result:
        click.echo(
            f"the core took {result['cycles']:,} cycles ({result['ms_at_200_mhz']} ms at 200 MHz); "
            f"{result['batches_compared']} batches and {result['logits_compared']} outputs compared with the integers, "
            f"{result['mismatches']} mismatches"
        )
    click.echo(result["adapters"])
    sys.exit(0 if result.get("bit_exact", True) else 1)


Asked = TypeVar("Asked")


def _request(kind: type[Asked], options: dict[str, Any]) -> Asked:
    """What `kind` knows of the options; one of the others that was given is refused."""
    context = click.get_current_context()
    known = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for name in options.keys() - known:
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            flag = next(one.opts[0] for one in context.command.params if one.name == name)
            raise UserError(f"{flag} has no meaning with --method {options['method']}: leave it out")
    return kind(**{name: value for name, value in options.items() if name in known})


@main.command()
@with_start
@click.option("--rounds", type=int, default=5, show_default=True, help="Of the federation.")
@click.option("--clients", type=int, default=10, show_default=True, help="That there are.")
@click.option("--fraction", type=float, default=0.2, show_default=True, help="Of them, that a round samples.")
@click.option("--alpha", type=float, default=1.0, show_default=True, help="Of the Dirichlet split; small is uneven.")
@click.option("--steps", type=int, default=12, show_default=True, help="Of a client in a round.")
@click.option("--batch", type=int, default=20, show_default=True, help="Samples of a step.")
@click.option("--rate", type=float, help="Learning rate; by default one that suits the network.")
@click.option("--plain-rate", type=float, help="Of plain federated zeroth order.")
@click.option("--fedavg-rate", type=float, help="Of FedAvg.")
@click.option("--eps", type=float, default=1e-3, show_default=True, help="Length of a perturbation.")
@click.option("--first", type=int, default=2, show_default=True, metavar="P1", help="Perturbations of the first part.")
@click.option("--second", type=int, default=8, show_default=True, metavar="P2", help="Of the second, for each of them.")
@click.option("--stage", type=int, help="Layer at which the model is cut; by default where that should save most.")
@click.option("--generator", default="otf8", show_default=True, metavar="NAME", help="A preset of pezo.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of everything random.")
@click.option("--mishaps", is_flag=True, help="One client drops out, and in each round one sends garbage first.")
@click.option("--alone", is_flag=True, help="Without the baselines.")
@click.option("--plot", type=_FILE, help="Held-out loss and accuracy by forward work: .png, .svg or .pdf.")
@click.option("--force", is_flag=True, help="Replace this file.")
@as_json
def federate(as_json: bool, **options: Any) -> None:
    """Fine-tune on several clients that upload integer scalars; the server rebuilds their models bit for bit."""
    from .federate import Request, run

    result = run(Request(**options), Console(stderr=True))
    if as_json:
        show_json(result)
    else:
        sheet = Table("", "right before %", "after %", "loss after", "upload bytes", "forward operations")
        for name, one in {"FedSPZO": result, **result["baselines"]}.items():
            before, after = (f"{100 * one[f'accuracy_{when}']:.1f}" for when in ("before", "after"))
            counts = (f"{one[what]:,}" for what in ("upload_bytes", "forward_flops"))
            sheet.add_row(name, before, after, f"{one['loss_after']:.3f}", *counts)
        Console(width=None if sys.stdout.isatty() else 120).print(sheet)
        for refusal in result["refused"]:
            click.echo(f"refused: {refusal}")
        click.echo("every bit the same" if result["bit_identical"] else "server and clients DIFFER")
    sys.exit(0 if result["bit_identical"] else 1)


@main.command()
@click.argument("network", default="lenet5-mnist", metavar="[NETWORK]")
@click.option("--rank", type=click.IntRange(1), default=4, show_default=True, help="Of the adapters.")
@as_json
def cost(network: str, rank: int, as_json: bool) -> None:
    """Count what each method costs on a NETWORK: parameters, operations and bytes of a sample."""
    from ..golden.models.presets import preset
    from ..golden.train.adapters.cost_model import cost as of
    from ..golden.train.adapters.methods import METHODS

    chosen = preset(network)
    costs = {name: dataclasses.asdict(of(chosen, method, rank)) for name, method in METHODS.items()}
    if as_json:
        show_json({"network": network, "rank": rank, "methods": costs})
        return
    sheet = Table("method", *(name.replace("_", " ") for name in next(iter(costs.values()))), title=network)
    for name, row in costs.items():
        sheet.add_row(name, *("-" if value is None else f"{value:,}" for value in row.values()))
    Console(width=None if sys.stdout.isatty() else 400).print(sheet)


@main.command()
@click.argument("name", metavar="|".join(TABLES))
@_DATA_DIR
@click.option("--seeds", type=click.IntRange(1), help="Trials; by default five, or the table's own number.")
@click.option("--model", type=click.Path(path_type=Path), help="Folder of a transformer, for tables of text.")
@click.option("--task", "tasks", multiple=True, metavar="NAME", help="Of text; may be repeated.")
@click.option("--shots", type=click.IntRange(1), help="Sentences a class; by default 16.")
@click.option("--steps", type=click.IntRange(1), help="Of zeroth order.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Learning rate where all weights of text learn.")
@click.option("--plot", type=_FILE, help="The table's curves, where it has any: .png, .svg or .pdf.")
@as_json
def table(name: str, plot: Path | None, as_json: bool, **options: Any) -> None:
    """Measure a table of a paper and print it beside the paper's numbers."""
    from .tables.measure import measure

    with Console(stderr=True).status(name) as status:
        result = measure(name, plot, status.update, **options)
    if as_json:
        show_json(result)
        return
    columns = list(result["rows"][0])
    sheet = Table(*columns, title=result["title"])
    for row in result["rows"]:
        sheet.add_row(*("-" if row[column] is None else str(row[column]) for column in columns))
    Console(width=None if sys.stdout.isatty() else 400).print(sheet)
    for note in result["notes"]:
        click.echo(note)


@main.command()
@click.option("--output", "-o", type=click.Path(path_type=Path), default=Path("build/demo"), show_default=True)
@click.option("--simulator", default="verilator", show_default=True, metavar="verilator|icarus")
@click.option("--force", is_flag=True, help="Replace the files of an earlier demo.")
@as_json
def demo(output: Path, simulator: str, force: bool, as_json: bool) -> None:
    """Fine-tune on drifted digits, send the weights through the RTL, emit, estimate, and write a report."""
    from .demo import demo as run

    result = run(output, simulator, force, Console(stderr=True))
    if as_json:
        show_json(result)
    else:
        click.echo(f"report: {output / 'report.html'}")
    sys.exit(0 if result["bit_exact"] else 1)
