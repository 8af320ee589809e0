"""A step of a transformer on the presets of all cores that run programs: time and bytes, or why it does not run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...boards.board import BOARDS, DEFAULT_MHZ
from ...boards.fit import BoardFit
from ...golden.cores.core import TransformerFit
from ...golden.errors import UserError
from ...golden.registry import CORES
from ...golden.stream.forward import IntegerTransformer
from ...golden.stream.machine.cost_model import StepCost

Show = Callable[[Sequence[str], list[list[str]], str], None]


def preset_fits(transformer: IntegerTransformer) -> list[TransformerFit]:
    """Put a transformer on each preset of each core that runs programs."""
    return [fit for kind in CORES.values() for fit in kind.runs(transformer)]


def preset_costs(transformer: IntegerTransformer, lengths: tuple[int, ...], first: int = 0) -> list[dict[str, Any]]:
    """Compute a step on each preset.

    Parameters
    ----------
    transformer : IntegerTransformer
        Shapes and formats.
    lengths : tuple of int
        Tokens of each sentence.
    first : int
        See `StepCost`.

    Returns
    -------
    list of dict
        ``core``, ``preset``, ``array``, ``refusal``; where that is empty, the figures of `step_figures` too, and
        ``longest_sentence``.
    """
    return [_described(fit, transformer, lengths, first) for fit in preset_fits(transformer)]


def measured_step(
    preset: str, transformer: IntegerTransformer, lengths: tuple[int, ...], stage: Callable[[str], None]
) -> dict[str, Any]:
    """Measure a step on the compiled RTL of a preset, operation by operation, beside the model's.

    Parameters
    ----------
    preset : str
    transformer, lengths
        See `preset_costs`.
    stage : callable
        Called with the name of each part of the work as it begins.

    Returns
    -------
    dict
        ``core``, ``preset``, ``cycles``, ``model`` and ``operations``: of each ``name``, ``kind``, ``bound``,
        ``cycles``, ``model``; what is outside of all is the last one.

    Raises
    ------
    UserError
        If there is no such preset, or the network does not run on it.
    """
    fits = {fit.preset: fit for fit in preset_fits(transformer)}
    if preset not in fits:
        raise UserError(f"there is no core {preset!r} that runs programs; there are: {', '.join(fits)}")
    fit = fits[preset]
    if refusal := _refusal(fit, lengths):
        raise UserError(f"{transformer.network.name} does not run on {fit.core} {preset}: {refusal}")
    found = type(fit.spec).part("sim", "step_cycles", "step_cycles")(fit.spec, transformer, lengths, stage=stage)
    cost = StepCost(transformer, lengths, fit.size)
    operations = [
        {"name": one.title, "kind": one.kind, "bound": one.bound, "cycles": cycles, "model": round(one.cycles)}
        for one, cycles in zip(cost.operations, found.operations, strict=True)
    ]
    outside = {"name": "outside", "kind": "outside", "bound": "", "cycles": found.outside, "model": round(cost.outside)}
    totals = {"cycles": found.cycles, "model": round(cost.cycles)}
    return {"core": fit.core, "preset": preset, **totals, "operations": [*operations, outside]}


def show_measured(found: dict[str, Any], table: Show) -> None:
    """Show what `measured_step` gave, those operations together that are alike."""
    alike: dict[tuple[str, str, int, int], list[str]] = {}
    for one in found["operations"]:
        alike.setdefault((one["kind"], one["bound"], one["cycles"], one["model"]), []).append(one["name"])
    rows = [
        [names[0], kind, str(len(names)), f"{cycles:,}", f"{model:,}", _apart(cycles, model), bound]
        for (kind, bound, cycles, model), names in alike.items()
    ]
    whole = ["step", "", "", f"{found['cycles']:,}", f"{found['model']:,}", _apart(found["cycles"], found["model"]), ""]
    columns = ("first of", "operation", "as many", "cycles of each", "model", "apart", "bound by")
    table(columns, [*rows, whole], f"{found['core']} {found['preset']}, measured on its RTL")


def _apart(cycles: int, model: int) -> str:
    return f"{100 * (model / cycles - 1):+.1f} %"


def step_figures(cost: StepCost) -> dict[str, Any]:
    """Figures of a step: cycles, steps a second, bytes from and to DRAM."""
    return {
        "cycles": round(cost.cycles),
        "array_use": round(cost.ideal_cycles / cost.cycles, 4),
        "steps_per_second": float(f"{DEFAULT_MHZ * 1e6 / cost.cycles:.4g}"),
        "bytes_read": cost.bytes_read,
        "bytes_written": cost.bytes_written,
    }


def _refusal(fit: TransformerFit, lengths: tuple[int, ...]) -> str:
    """Reason why sentences do not run there; empty where they do."""
    if not fit.refusal and (most := max(lengths)) > fit.longest:
        return f"a sentence has at most {fit.longest} tokens in its buffers, not {most}"
    return fit.refusal


def _described(
    fit: TransformerFit, transformer: IntegerTransformer, lengths: tuple[int, ...], first: int
) -> dict[str, Any]:
    refusal = _refusal(fit, lengths)
    found = {
        "core": fit.core,
        "preset": fit.preset,
        "array": f"{fit.size.lanes}x{fit.size.columns}",
        "refusal": refusal,
    }
    if refusal:
        return found
    fits = {name: BoardFit(fit.spec, board) for name, board in BOARDS.items()}
    return found | {
        "longest_sentence": fit.longest,
        **step_figures(StepCost(transformer, lengths, fit.size, first)),
        "dsps": fit.spec.dsps,
        "boards": [name for name, one in fits.items() if not one.lacks],
    }


def show_presets(costs: list[dict[str, Any]], title: str, table: Show) -> Iterator[str]:
    """Show the presets as a table; the lines below it say on which ones the network does not run."""
    columns = ("core", "array", "cycles", "array use", "steps/s", "bytes read", "written", "DSP", "fits on")
    table(columns, [_row(one) for one in costs], title)
    for one in costs:
        if one["refusal"]:
            yield f"not on {one['core']} {one['preset']}: {one['refusal']}"


def _row(one: dict[str, Any]) -> list[str]:
    name = [f"{one['core']} {one['preset']}", one["array"]]
    if one["refusal"]:
        return [*name, "refused, see below", *[""] * 6]
    counts = (f"{one[which]:,}" for which in ("bytes_read", "bytes_written", "dsps"))
    use, rate = f"{100 * one['array_use']:.0f} %", f"{one['steps_per_second']:.3g}"
    return [*name, f"{one['cycles']:,}", use, rate, *counts, ", ".join(one["boards"]) or "no board"]
