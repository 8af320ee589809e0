"""A step of a transformer on the presets of all cores that run programs: time and bytes, or why it does not run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...boards.board import BOARDS, DEFAULT_MHZ
from ...boards.fit import BoardFit
from ...golden.cores.fit import TransformerFit
from ...golden.registry import CORES, TRANSFORMER_CORES
from ...golden.stream.forward import IntegerTransformer
from ...golden.stream.machine.cost_model import StepCost

Show = Callable[[Sequence[str], list[list[str]], str], None]


def preset_fits(transformer: IntegerTransformer) -> list[TransformerFit]:
    """Put a transformer on each preset of each core that runs programs."""
    kinds = {**CORES, **TRANSFORMER_CORES}.values()
    return [fit for kind in kinds for fit in kind.runs(transformer)]


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


def step_figures(cost: StepCost) -> dict[str, Any]:
    """Figures of a step: cycles, steps a second, bytes from and to DRAM."""
    return {
        "cycles": round(cost.cycles),
        "array_use": round(cost.ideal_cycles / cost.cycles, 4),
        "steps_per_second": float(f"{DEFAULT_MHZ * 1e6 / cost.cycles:.4g}"),
        "bytes_read": cost.bytes_read,
        "bytes_written": cost.bytes_written,
    }


def _described(
    fit: TransformerFit, transformer: IntegerTransformer, lengths: tuple[int, ...], first: int
) -> dict[str, Any]:
    refusal, most = fit.refusal, max(lengths)
    if not refusal and most > fit.longest:
        refusal = f"a sentence has at most {fit.longest} tokens in its buffers, not {most}"
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
