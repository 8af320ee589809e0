"""Description of a sweep, read from a TOML file and checked before any computation."""

from __future__ import annotations

import itertools
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from ... import __version__
from ...golden.cache import digest_of
from ...golden.errors import UserError
from ...golden.files import read_text
from ...golden.registry import BLOCKS, CORES
from ...golden.settings import fields_of
from ..board import BOARDS, DEFAULT_BOARD, RESOURCES
from .core_sweep import TrainedSweep, core_sweeps

Value = int | float | str | bool
"""Value of a setting of the block or of training."""
Values = Mapping[str, Value]

OF_ALL = ("accuracy", *RESOURCES)
OF_CORES = ("cycles", "dram_bytes")
OBJECTIVES = (*OF_ALL, *OF_CORES)
"""All objectives: accuracy is maximised, the others are minimised. A generator has none of `OF_CORES`."""
SAMPLERS = ("grid", "random", "tpe")
MOST_TRIALS = 100_000
MOST_CORNERS = 512
"""Largest space in which all combinations are checked before work begins; in larger spaces only ends are."""

_KEYS = {
    **dict.fromkeys(("block", "preset", "board", "sampler"), str),
    **dict.fromkeys(("trials", "seed", "seeds"), int),
    **dict.fromkeys(("settings", "training", "sweep"), dict),
    "objectives": list,
}
_WORKLOAD: dict[str, type] = {
    **dict.fromkeys(("data", "data_dir", "drift", "network", "model", "weights"), str),
    "pretrain": bool,
    "scale": float,
}
"""Settings of the workload, as the options of `fabtune tune`; never swept."""
_COMMON: dict[str, type] = {"method": str, "batch": int, "rate": float}
"""Settings of any core's training."""
_NOT_SWEPT = {
    "network": "training's network, model or data say it",
    "byte_inputs": "training's data say it",
}
"""Settings of any core that a sweep refuses, with the reason."""


@dataclass(frozen=True)
class Choices:
    """Parameter with a list of different values."""

    values: tuple[Value, ...]

    @property
    def corners(self) -> tuple[Value, ...]:
        return tuple(dict.fromkeys((self.values[0], self.values[-1])))


@dataclass(frozen=True)
class Range:
    """Parameter with any number of a range, both ends included; draws are linear or logarithmic.

    Without ``step``, integers have a step of 1.
    """

    low: int | float
    high: int | float
    step: int | float | None = None
    log: bool = False

    @property
    def values(self) -> tuple[Value, ...]:
        """All values of a range of integers; empty for a range of floats."""
        if isinstance(self.low, float):
            return ()
        return tuple(range(int(self.low), int(self.high) + 1, int(self.step or 1)))

    @property
    def corners(self) -> tuple[Value, ...]:
        values = self.values or (self.low, self.high)
        return tuple(dict.fromkeys((values[0], values[-1])))


Parameter = Choices | Range


@dataclass(frozen=True)
class Point:
    """Settings of block and training for one choice of all parameters, fixed settings included."""

    settings: dict[str, Value]
    training: dict[str, Value]


@dataclass(frozen=True)
class Space:
    """A checked description of a sweep.

    Parameters
    ----------
    name : str
        Name of the file, without suffix.
    block : str
        A core or a submodule of a generator: a key of `core_sweeps`.
    objectives : tuple of str
    preset : str, optional
    settings, training : dict
        Fixed settings.
    parameters : dict of str to Parameter
        Swept settings, by name: ``settings.NAME`` or ``training.NAME``.
    sampler : str
        One of `SAMPLERS`.
    trials : int, optional
        Number of points to evaluate; None for a whole grid.
    seed : int
        Seed of the sampler.
    seeds : int
        Number of trainings of each point, with seeds 0, 1 and so on; the accuracy is their mean.
    board : str
        Board whose fabric the estimates assume.
    """

    name: str
    block: str
    objectives: tuple[str, ...]
    preset: str | None = None
    settings: dict[str, Value] = field(default_factory=dict)
    training: dict[str, Value] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    sampler: str = "grid"
    trials: int | None = None
    seed: int = 0
    seeds: int = 1
    board: str = DEFAULT_BOARD

    @property
    def digest(self) -> str:
        """Digest of everything that decides the values of a point, so not of the number of trials."""
        return digest_of(replace(self, trials=None, name=""), __version__)

    @property
    def of_core(self) -> bool:
        """Whether the block is a core; otherwise it is a submodule of a core's generator."""
        return self.block in CORES

    @property
    def on_samples(self) -> bool:
        """Whether the workload is samples; otherwise it is a transformer by its shapes, or nothing."""
        return isinstance(core_sweeps()[self.block], TrainedSweep) and (self.of_core or self.trains)

    @property
    def trains(self) -> bool:
        return "accuracy" in self.objectives

    @property
    def directions(self) -> list[Literal["maximize", "minimize"]]:
        return ["maximize" if name == "accuracy" else "minimize" for name in self.objectives]

    @property
    def total(self) -> int:
        return self.trials or math.prod(len(parameter.values) for parameter in self.parameters.values())

    def grid(self) -> Iterator[dict[str, Value]]:
        """All combinations of values; the last parameter changes fastest."""
        return combinations({name: parameter.values for name, parameter in self.parameters.items()})

    def point(self, values: Values) -> Point:
        """Point of the parameters' values and the fixed settings."""
        parts: dict[str, dict[str, Value]] = {"settings": dict(self.settings), "training": dict(self.training)}
        for name, value in values.items():
            part, _, rest = name.partition(".")
            parts[part][rest] = value
        return Point(parts["settings"], parts["training"])


def combinations(values: Mapping[str, Sequence[Value]]) -> Iterator[dict[str, Value]]:
    """All combinations of values by name; the last name changes fastest."""
    for combination in itertools.product(*values.values()):
        yield dict(zip(values, combination, strict=True))


def read(file: Path, training: Values | None = None) -> Space:
    """Read a description; ``training`` replaces fixed settings of training in the file.

    A `UserError` if the file is no TOML, or a key or value is wrong; the message names the key and the allowed values.
    """
    text = read_text(file)
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # an integer of 5,000 digits is a ValueError alone
        raise UserError(f"{file} is no TOML: {' '.join(str(error).split())[:200]}") from None
    if training:
        table["training"] = {**_typed("training", table.get("training", {}), dict), **training}
    try:
        return _space(file.stem, table)
    except UserError as error:
        raise UserError(f"{file}: {error}") from None


def _space(name: str, table: dict[str, Any]) -> Space:
    _known(table, _KEYS, "")
    for key, kind in _KEYS.items():
        if key in table:
            _typed(key, table[key], kind)
    block = table.get("block")
    if block not in (blocks := core_sweeps()):
        raise UserError(f"block = {block!r} is not one of {', '.join(blocks)}")
    preset, presets = table.get("preset"), BLOCKS[block].presets
    if preset is not None and preset not in presets:
        raise UserError(f"preset = {preset!r}: {block} has {', '.join(presets) or 'none'}")
    if table.get("board", DEFAULT_BOARD) not in BOARDS:
        raise UserError(f"board = {table['board']!r} is not one of {', '.join(BOARDS)}")
    objectives = _objectives(table.get("objectives", []), block)
    sweep = table.get("sweep", {})
    _known(sweep, ("settings", "training"), "sweep.")
    allowed = _allowed(block, "accuracy" in objectives)
    fixed, parameters = {}, dict[str, Parameter]()
    for part in ("settings", "training"):
        constants, swept = table.get(part, {}), _typed(f"sweep.{part}", sweep.get(part, {}), dict)
        names = {key: _resolve(part, key, allowed[part], block) for key in (*constants, *swept)}
        fixed[part] = {
            names[key]: _value(f"{part}.{key}", constants[key], allowed[part][names[key]]) for key in constants
        }
        for key, wish in swept.items():
            where = f"sweep.{part}.{key}"
            if names[key] in fixed[part] or f"{part}.{names[key]}" in parameters:
                raise UserError(f"{where}: {names[key]} is given twice")
            if part == "training" and (key in (*_WORKLOAD, "core") or not isinstance(blocks[block], TrainedSweep)):
                raise UserError(f"{where} is not swept: give it in [training]")
            parameters[f"{part}.{names[key]}"] = _parameter(where, wish, allowed[part][names[key]])
    if not parameters:
        raise UserError("there is nothing to sweep: give lists or ranges in [sweep.settings] or [sweep.training]")
    if (fixed["training"] or sweep.get("training")) and block not in CORES and "accuracy" not in objectives:
        raise UserError("training has no meaning for a generator without the objective accuracy: leave it out")
    space = Space(
        name,
        block,
        objectives,
        preset,
        fixed["settings"],
        fixed["training"],
        parameters,
        **{key: table[key] for key in ("sampler", "trials", "seed", "seeds", "board") if key in table},
    )
    _check_sampling(space, "seeds" in table)
    if not space.of_core and space.trains and "core" not in space.training:
        core = blocks[block].spec.name
        raise UserError(f"training.core is missing: name the preset of {core} whose array the network is tuned on")
    return space


def _objectives(names: list[Any], block: str) -> tuple[str, ...]:
    allowed: tuple[str, ...] = OBJECTIVES if block in CORES else OF_ALL
    if not isinstance(core_sweeps()[block], TrainedSweep):
        allowed = tuple(name for name in allowed if name != "accuracy")
    if not names:
        raise UserError(f"objectives is empty or missing: give some of {', '.join(allowed)}")
    for index, name in enumerate(names):
        if name not in allowed:
            raise UserError(f"objectives: {name!r} is not one of {block}'s: {', '.join(allowed)}")
        if name in names[:index]:
            raise UserError(f"objectives: {name} is there twice")
    return tuple(names)


def _allowed(block: str, trains: bool) -> dict[str, dict[str, Any]]:
    settings, core = fields_of(BLOCKS[block]), core_sweeps()[block]
    training = (_WORKLOAD | _COMMON if isinstance(core, TrainedSweep) else {}) | core.training
    if block not in CORES:
        training = training | {"core": str} if trains else {}
    return {"settings": settings, "training": training}


def _check_sampling(space: Space, seeds_given: bool) -> None:
    if space.sampler not in SAMPLERS:
        raise UserError(f"sampler = {space.sampler!r} is not one of {', '.join(SAMPLERS)}")
    if space.sampler == "grid":
        if space.trials is not None:
            raise UserError("trials has no meaning with sampler = 'grid', which takes all points: leave it out")
        for name, parameter in space.parameters.items():
            if not parameter.values:
                raise UserError(f"sweep.{name}: a grid takes a list, or a range of integers")
        if space.total > MOST_TRIALS:
            raise UserError(f"a grid of {space.total} points: at most {MOST_TRIALS}, or another sampler")
    elif space.trials is None or not 1 <= space.trials <= MOST_TRIALS:
        value = "missing" if space.trials is None else f"= {space.trials}"
        raise UserError(f"trials {value}: sampler = {space.sampler!r} takes 1 to {MOST_TRIALS}")
    if not 0 <= space.seed < 1 << 31:
        raise UserError(f"seed = {space.seed} is not in 0 to 2**31 - 1")
    if not 1 <= space.seeds <= 1000:
        raise UserError(f"seeds = {space.seeds} is not in 1 to 1000")
    if seeds_given and not space.trains:
        raise UserError("seeds has no meaning without the objective accuracy: leave it out")


def _known(table: Mapping[str, Any], allowed: Mapping[str, Any] | Sequence[str], prefix: str) -> None:
    for key in table:
        if key not in allowed:
            raise UserError(f"there is no {prefix}{key}; there are: {', '.join(allowed)}")


def _resolve(part: str, key: str, allowed: Mapping[str, Any], block: str) -> str:
    """Full name of a setting; the last component suffices if unique."""
    ends = [name for name in allowed if name == key or name.endswith(f".{key}")]
    full_name = key if key in allowed else ends[0] if len(ends) == 1 else None
    if full_name is None:
        what = f"is ambiguous: say {' or '.join(ends)}" if ends else f"is unknown; there are: {', '.join(allowed)}"
        raise UserError(f"{part}.{key} {what}")
    if part == "settings" and block in CORES and full_name in (reasons := _NOT_SWEPT | core_sweeps()[block].not_swept):
        raise UserError(f"{part}.{key} is not for a sweep: {reasons[full_name]}")
    return full_name


def _value(where: str, value: Any, hint: Any) -> Value:
    """Check the type of a value; a tuple becomes text in the syntax of ``--set``."""
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise UserError(f"{where} = {value!r} is not one of {', '.join(get_args(hint))}")
        return str(value)
    if get_origin(hint) is tuple:
        if not isinstance(value, list) or not all(type(item) is int for item in value):
            raise UserError(f"{where} = {value!r} is no list of integers")
        return ",".join(map(str, value))
    checked: Value = _typed(where, value, hint)
    return checked


def _typed(where: str, value: Any, kind: Any) -> Any:
    names = {int: "an integer", float: "a number", str: "a text", bool: "true or false", list: "a list"}
    if kind is float and type(value) in (int, float) and math.isfinite(value):
        return float(value)
    if type(value) is not kind or kind is float:
        raise UserError(f"{where} = {value!r} is not {names.get(kind, 'a table')}")
    return value


def _parameter(where: str, wish: Any, hint: Any) -> Parameter:
    if isinstance(wish, list):
        if not wish:
            raise UserError(f"{where} is an empty list: give its values")
        values = tuple(_value(where, value, hint) for value in wish)
        if twice := next((value for index, value in enumerate(values) if value in values[:index]), None):
            raise UserError(f"{where}: {twice!r} is there twice")
        return Choices(values)
    if not isinstance(wish, dict):
        raise UserError(f"{where} = {wish!r} is neither a list nor a range such as {{ from = 1, to = 8, step = 1 }}")
    if hint not in (int, float):
        raise UserError(f"{where}: a range is of numbers; give a list")
    _known(wish, ("from", "to", "step", "log"), f"{where}.")
    if missing := next((key for key in ("from", "to") if key not in wish), None):
        raise UserError(f"{where}.{missing} is missing: a range has from and to")
    low, high = (_typed(f"{where}.{key}", wish[key], hint) for key in ("from", "to"))
    step = _typed(f"{where}.step", wish["step"], hint) if "step" in wish else None
    log = _typed(f"{where}.log", wish.get("log", False), bool)
    if low > high:
        raise UserError(f"{where}: from = {low} is above to = {high}")
    if step is not None and (step <= 0 or log):
        raise UserError(f"{where}.step = {step} is above 0, and not with log = true")
    if step is not None and not math.isclose((high - low) / step, round((high - low) / step), abs_tol=1e-9):
        raise UserError(f"{where}: to = {high} is no whole number of steps of {step} from {low}")
    if log and low <= 0:
        raise UserError(f"{where}.from = {low}: a logarithmic range begins above 0")
    if hint is int and (high - low) // (step or 1) >= MOST_TRIALS:
        raise UserError(f"{where}: a range of more than {MOST_TRIALS} integers; give a step, or from and to nearer")
    return Range(low, high, step, log)
