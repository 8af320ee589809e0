"""Time and bytes of a transformer's step on all presets of program-running cores, or why a preset cannot run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

from ...boards.board import DEFAULT_MHZ
from ...boards.fit import fits_on_boards
from ...golden.cores.core import TransformerFit
from ...golden.errors import UserError
from ...golden.registry import CORES
from ...golden.stream.forward import IntegerTransformer
from ...golden.stream.machine.cost_model import StepCost

Show = Callable[[Sequence[str], list[list[str]], str], None]


def preset_fits(transformer: IntegerTransformer) -> list[TransformerFit]:
    """Fit of a transformer on each preset of each program-running core."""
    return [fit for core in CORES.values() for fit in core.runs(transformer)]


def preset_costs(transformer: IntegerTransformer, lengths: tuple[int, ...], first: int = 0) -> list[dict[str, Any]]:
    """Cost of a step on each preset, for a transformer's shapes and formats and the tokens of each sentence.

    Keys are ``core``, ``preset``, ``array``, ``refusal``; without a refusal also the figures of `step_figures`, the
    tuned part, bytes of parameters in DRAM, ``dsps``, ``longest_sentence``, and for boards fit, needs and lacks. For
    `first` see `StepCost`.
    """
    return [_described(fit, transformer, lengths, first) for fit in preset_fits(transformer)]


def measured_step(
    preset: str, transformer: IntegerTransformer, lengths: tuple[int, ...], stage: Callable[[str], None]
) -> dict[str, Any]:
    """Cycles of a step on the compiled RTL of a preset, by operation, next to the cost model's cycles.

    Keys are ``core``, ``preset``, ``cycles``, ``model`` (cycles of the cost model) and ``operations``. Each operation
    has ``name``, ``kind``, ``bound``, ``cycles`` and ``model``; the last entry has the cycles outside all operations.
    `stage` is called with the name of each part of the work.

    Raises
    ------
    UserError
        If the preset is unknown, or the network does not run on it.
    """
    fits = {fit.preset: fit for fit in preset_fits(transformer)}
    if preset not in fits:
        raise UserError(f"there is no core {preset!r} that runs programs; there are: {', '.join(fits)}")
    fit = fits[preset]
    if refusal := _refusal(fit, lengths):
        raise UserError(f"{transformer.network.name} does not run on {fit.core} {preset}: {refusal}")
    measured = type(fit.spec).part("sim", "measured_jobs", "step_cycles")(fit.spec, transformer, lengths, stage=stage)
    cost = StepCost(transformer, lengths, fit.size)
    operations = [
        {
            "name": operation.title,
            "kind": operation.kind,
            "bound": operation.bound,
            "cycles": cycles,
            "model": round(operation.cycles),
        }
        for operation, cycles in zip(cost.operations, measured.operations, strict=True)
    ]
    outside = {
        "name": "outside",
        "kind": "outside",
        "bound": "",
        "cycles": measured.outside,
        "model": round(cost.outside),
    }
    totals = {"cycles": measured.cycles, "model": round(cost.cycles)}
    return {"core": fit.core, "preset": preset, **totals, "operations": [*operations, outside]}


def show_measured(step: dict[str, Any], table: Show) -> None:
    """Show the result of `measured_step`, with equal operations in one row."""
    alike: dict[tuple[str, str, int, int], list[str]] = {}
    for operation in step["operations"]:
        alike.setdefault((operation["kind"], operation["bound"], operation["cycles"], operation["model"]), []).append(
            operation["name"]
        )
    rows = [
        [names[0], kind, str(len(names)), f"{cycles:,}", f"{model:,}", _apart(cycles, model), bound]
        for (kind, bound, cycles, model), names in alike.items()
    ]
    whole = ["step", "", "", f"{step['cycles']:,}", f"{step['model']:,}", _apart(step["cycles"], step["model"]), ""]
    columns = ("first of", "operation", "as many", "cycles of each", "model", "apart", "bound by")
    table(columns, [*rows, whole], f"{step['core']} {step['preset']}, measured on its RTL")


def _apart(cycles: int, model: int) -> str:
    return f"{100 * (model / cycles - 1):+.1f} %"


def step_figures(cost: StepCost) -> dict[str, Any]:
    """Figures of a step: cycles, steps per second, bytes from and to DRAM."""
    return {
        "cycles": round(cost.cycles),
        "array_use": round(cost.ideal_cycles / cost.cycles, 4),
        "steps_per_second": float(f"{DEFAULT_MHZ * 1e6 / cost.cycles:.4g}"),
        "bytes_read": cost.bytes_read,
        "bytes_written": cost.bytes_written,
    }


def _refusal(fit: TransformerFit, lengths: tuple[int, ...]) -> str:
    """Reason why sentences do not run on a preset; empty if they run."""
    if not fit.refusal and (most := max(lengths)) > fit.longest:
        return f"a sentence has at most {fit.longest} tokens in its buffers, not {most}"
    return fit.refusal


def _described(
    fit: TransformerFit, transformer: IntegerTransformer, lengths: tuple[int, ...], first: int
) -> dict[str, Any]:
    refusal = _refusal(fit, lengths)
    facts = {
        "core": fit.core,
        "preset": fit.preset,
        "array": f"{fit.size.lanes}x{fit.size.columns}",
        "refusal": refusal,
    }
    if refusal:
        return facts
    fits, cost = fits_on_boards(fit.spec), StepCost(transformer, lengths, fit.size, first)
    held = cost.bytes
    return facts | {
        "tunes": fit.spec.tuned(sum(map(prod, transformer.network.parameter_shapes.values()))),
        "longest_sentence": fit.longest,
        **step_figures(cost),
        "parameter_bytes": held.codes + held.scales + held.vectors,
        "dsps": fit.spec.dsps,
        "boards": [name for name, fit_on_board in fits.items() if not fit_on_board.lacks],
        "needs": {name: fit_on_board.needs for name, fit_on_board in fits.items()},
        "lacks": {name: fit_on_board.text for name, fit_on_board in fits.items() if fit_on_board.lacks},
    }


def show_presets(costs: list[dict[str, Any]], title: str, table: Show) -> Iterator[str]:
    """Show the presets as a table; yield a line for each preset that cannot run the network."""
    columns = ("core", "array", "cycles", "array use", "steps/s", "bytes read", "written", "DSP", "fits on")
    table(columns, [_row(cost) for cost in costs], title)
    for cost in costs:
        if cost["refusal"]:
            yield f"not on {cost['core']} {cost['preset']}: {cost['refusal']}"


def _row(cost: dict[str, Any]) -> list[str]:
    name = [f"{cost['core']} {cost['preset']}", cost["array"]]
    if cost["refusal"]:
        return [*name, "refused, see below", *[""] * 6]
    counts = (f"{cost[which]:,}" for which in ("bytes_read", "bytes_written", "dsps"))
    use, rate = f"{100 * cost['array_use']:.0f} %", f"{cost['steps_per_second']:.3g}"
    return [*name, f"{cost['cycles']:,}", use, rate, *counts, ", ".join(cost["boards"]) or "no board"]
