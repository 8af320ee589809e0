"""Options that several commands share, and help texts with options in sections."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..golden.errors import UserError
from .words import REFUSALS

if TYPE_CHECKING:
    from ..golden.block import Spec

Function = Callable[..., Any]
Decorator = Callable[[Function], Function]

SEED = click.IntRange(0, (1 << 64) - 1)
"""Seeds that NumPy and PyTorch both take."""
EPOCHS = click.IntRange(1, 10_000)
STEPS = click.IntRange(1, 1_000_000)
"""Number of steps; limited, as the sample order of all steps is drawn and stored before the first step."""
FILE = click.Path(path_type=Path, dir_okay=False)
PATH = click.Path(path_type=Path)


class SectionedOption(click.Option):
    """An option with its section of the help text, and the methods of the option.

    ``methods`` are values of ``--method`` for which the option has a meaning (see `refuse_other_methods`), by default
    all.
    """

    section = "Options"

    def __init__(self, *declared: Any, methods: tuple[str, ...] | None = None, **attributes: Any) -> None:
        attributes.setdefault("callback", _known_word)
        super().__init__(*declared, **attributes)
        self.methods = methods


def _known_word(_: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Refuse a wrong word of `words.REFUSALS`; defaults are right."""
    refuse = REFUSALS.get(parameter.opts[0])
    if refuse is not None and value not in (None, parameter.default):
        refuse(value)
    return value


class CoreOption(SectionedOption):
    """An option that names a preset of a core; the help text lists the presets of each core.

    A core is listed if its ``sim/cores/CORE/tune.py`` has any of ``names``.
    """

    def __init__(self, *declared: Any, names: tuple[str, ...], **attributes: Any) -> None:
        super().__init__(*declared, metavar="NAME", callback=self._known, **attributes)
        self.names = tuple(f"{name} = " for name in names)

    def _known(self, _: click.Context, __: click.Parameter, name: str | None) -> str | None:
        """Refuse a name that is no preset of any of the cores."""
        cores = {} if name is None else self._presets()
        if name is not None and not any(name in presets for presets in cores.values()):
            several = len(cores) > 1
            known = [f"{core} " * several + ", ".join(presets) for core, presets in cores.items()]
            raise UserError(f"there is no core {name!r}; there are: {'; '.join(known)}")
        return name

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Name and text with the presets; cores are imported only for the help text."""
        record = super().get_help_record(ctx)
        presets = "; ".join(f"{name}: {', '.join(presets)}" for name, presets in self._presets().items())
        return None if record is None else (record[0], f"{record[1]} {presets}.")

    def _presets(self) -> dict[str, list[str]]:
        """Presets by core."""
        from ..golden.registry import CORES

        folder = Path(__file__).parents[1] / "sim" / "cores"
        files = {name: folder / name / "tune.py" for name in CORES}
        lines = {name: file.read_text(encoding="utf-8").splitlines() for name, file in files.items() if file.is_file()}
        able = [name for name, text in lines.items() if any(line.startswith(self.names) for line in text)]
        return {name: [*CORES[name].presets] for name in able}


class SectionedCommand(click.Command):
    """A command with a help text in sections, in the order of declaration."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each section's options under the section's title."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                sections.setdefault(getattr(parameter, "section", SectionedOption.section), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


option = partial(click.option, cls=SectionedOption)
"""``click.option`` for a `SectionedCommand`."""


def section(title: str, *options: Decorator, methods: tuple[str, ...] | None = None) -> Decorator:
    """Put options made by `option` under a title of the help text.

    ``methods`` applies to options without `methods`, see `SectionedOption`.
    """

    def apply(function: Function) -> Function:
        declared = len(getattr(function, "__click_params__", ()))
        function = together(*options)(function)
        for parameter in function.__click_params__[declared:]:  # type: ignore[attr-defined]
            parameter.section = title
            parameter.methods = getattr(parameter, "methods", None) or methods
        return function

    return apply


def together(*options: Decorator) -> Decorator:
    """Several decorators as a single decorator; the help text keeps their order."""
    return lambda function: reduce(lambda done, decorator: decorator(done), reversed(options), function)


def given(names: Iterable[str]) -> str | None:
    """First option of ``names`` (parameter names) that the user gave, as written: ``--data-dir``; else None."""
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            return next(parameter.opts[0] for parameter in context.command.params if parameter.name == name)
    return None


def refuse_options(names: Iterable[str], reason: str) -> None:
    """Refuse options without effect: a `UserError` for the first that was given.

    ``reason`` is the option or value that disables them and follows "with" in the message: ``--method mezo``.
    """
    if (flag := given(names)) is not None:
        raise UserError(f"{flag} has no meaning with {reason}: leave it out")


def refuse_other_methods(method: str) -> None:
    """Refuse options of other methods than ``method``: a `UserError` for the first."""
    options = click.get_current_context().command.params
    others = [
        parameter.name
        for parameter in options
        if (methods := getattr(parameter, "methods", None)) is not None and method not in methods
    ]
    refuse_options([name for name in others if name], f"--method {method}")


as_json = option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
scale = option(
    "--scale", type=float, default=1.0, metavar="FACTOR", help="Multiply samples of floats; by default they stay."
)
data_dir = option("--data-dir", type=PATH, help="Folder with the data's files.")


def _shape(_: click.Context, __: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    if text is not None and not re.fullmatch(r"[1-9]\d{0,5}(x[1-9]\d{0,5}){0,2}", text):
        raise UserError(
            f"--input {text!r} is not CHANNELSxHEIGHTxWIDTH, CHANNELSxLENGTH or FEATURES: 3x32x32, 6x128, 640"
        )
    return None if text is None else tuple(map(int, text.split("x")))


def _as_built(_: click.Context, __: click.Parameter, is_given: bool) -> None:
    if is_given:
        raise UserError(
            "--as-built is what happens now: leave it out; --pretrain trains weights that are given further"
        )


network_options = together(
    option(
        "--model",
        metavar="FILE.py:BUILD|FILE.onnx|FILE.pt2",
        help="Your own torch.nn.Module, FILE.py is run; ONNX; a program.",
    ),
    option(
        "--weights",
        type=FILE,
        metavar="FILE[:PREFIX]",
        help="A state dict for the network: safetensors, or of torch.save; names lose the PREFIX, such as module.",
    ),
    option(
        *("--input", "shape"),
        callback=_shape,
        metavar="SHAPE",
        help="Shape of a sample of FILE.py:BUILD, such as 3x32x32, 6x128 or 640, where no data says it.",
    ),
)
"""The user's network: the fields of `scripts.own_network.OwnNetwork`."""
start = together(
    option("--network", metavar="NAME", help="A preset; by default the one that goes with the data."),
    network_options,
    option("--pretrain", is_flag=True, help="Pre-train these weights first; a preset without weights always is."),
    option("--as-built", is_flag=True, hidden=True, expose_value=False, callback=_as_built),
    option("--data", default="digits", show_default=True, metavar="NAME|npz:FILE", help="Samples."),
    scale,
    data_dir,
    option("--drift", metavar="none|camera|rotate:DEG", help="Default: camera for digits, otherwise none."),
)
"""Samples, network and weights from which a fine-tuning starts; see `scripts.start.Start`."""


sample_options = together(
    option(
        "--data",
        metavar="NAME|npz:FILE",
        help="Samples to tune on and held-out ones; with the weights of the network, from --weights or --model.",
    ),
    scale,
    data_dir,
    option("--drift", metavar="none|camera|rotate:DEG", help="Default: camera for digits, otherwise none."),
    option("--seed", type=SEED, default=0, show_default=True, help="Seed of all random numbers."),
)
"""Samples of a core's self-test; see `scripts.packaging.own_task`."""
shots = option("--shots", type=click.IntRange(1), default=16, show_default=True, help="Sentences a class.")
transformer_options = together(
    option("--prompt", metavar="label-words|sentences", help="By default label words where the model has such a head."),
    option("--base", metavar="nf4|18-bit", help="Frozen matrices in integers, by default nf4."),
    option("--from-layer", type=click.IntRange(0), help="First layer that is tuned, from 0; what is below is cached."),
    option("--tune", "tuned", metavar="all|norms", help="Tensors of these layers: all, or norms and biases alone."),
)
"""Head, base and tuned tensors of a transformer on text."""
sentence_options = together(
    shots,
    transformer_options,
    option("--delta", type=FILE, help="Begin with the updates of a run: the --delta of `tune`, sensitive weights too."),
)
"""Sentences and tuned tensors of the jobs of a core that runs transformers; see `scripts.packaging.own_sentences`."""
OF_TRANSFORMERS = ("shots", "prompt", "base", "from_layer", "tuned", "delta")
"""Parameters of `sentence_options`."""
task_options = together(
    sample_options,
    option("--epochs", type=EPOCHS, help="Epochs of tuning, where the core counts them; by default as `tune`."),
    option("--steps", type=STEPS, help="Steps of tuning, where the core counts them; by default as `tune`."),
    option("--batch", type=click.IntRange(1), help="Samples of a batch or step; by default 20."),
    option("--rate", type=float, help="Learning rate on the mean of a batch; by default as `tune`."),
)
"""Samples and tuning of a core's example, self-test and memory images; see `scripts.packaging.own_task`."""


def block(required: bool = True) -> Decorator:
    """``BLOCK``, ``--preset``, ``--set`` and `network_options`: the parameters of `spec_of`."""
    return together(
        click.argument("block", metavar="BLOCK" if required else "[BLOCK]", required=required),
        option("--preset", metavar="NAME", help="Named parameters to start from (see `fabtune list`)."),
        option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A parameter; may be repeated."),
        network_options,
    )


NAME_HELP = "What follows CORE_ in the names of module, IP and kernel; default: the preset, else the signature."
"""Help of ``--name``."""


def spec_of(
    block: str,
    settings: tuple[str, ...],
    preset: str | None,
    model: str | None = None,
    weights: Path | None = None,
    shape: tuple[int, ...] | None = None,
) -> Spec:
    """Spec of a block, for the user's network if ``model`` names a network.

    Raises
    ------
    UserError
        For an unknown block, preset or parameter, for a wrong value, for a network that the block or its array does not
        take, and for weights, as a spec does not depend on weights.
    """
    kind = kind_of(block)
    if weights is not None:
        raise UserError(
            f"--weights has no effect on {click.get_current_context().info_name}: a core loads its parameters when it "
            "runs; leave it out, `fabtune package` and `fabtune images` take it"
        )
    if model is None:
        if shape is not None:
            raise UserError("--input is the shape of your own network's samples: give it with --model FILE.py:BUILD")
        from ..golden.settings import build

        return build(kind, settings, preset)
    from .own_network import OwnNetwork, core_spec

    return core_spec(kind, OwnNetwork(model, shape=shape), settings, preset)


def kind_of(block: str) -> type[Spec]:
    """Class of a block's specs; a `UserError` for an unknown block."""
    from ..golden.registry import BLOCKS

    if block not in BLOCKS:
        raise UserError(f"there is no block {block!r}; there are: {', '.join(BLOCKS)}")
    return BLOCKS[block]
