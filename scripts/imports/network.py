"""`fabtune import` of a network of layers: stages, fit on cores and boards, and dynamic ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...boards.board import BOARDS
from ...boards.estimate.estimate import estimate_spec
from ...boards.fit import fits_on_boards
from ...golden.axi.bus import BEAT
from ...golden.cores.core import CoreFit
from ...golden.datasets.npz import inputs_of
from ...golden.errors import UserError
from ...golden.fixed import Q4_12, Q8_16
from ...golden.importers.layers.folding import described, folded
from ...golden.models.layers import MaxPool, by
from ...golden.models.network import Network
from ...golden.models.stages import Stage, Tensors
from ...golden.models.text import text_of
from ...golden.registry import CORES
from ...golden.train.dynamic_range import StageRange, dynamic_range, parameters_advice, samples_advice
from ..own_network import OwnNetwork, check_shape


@dataclass(frozen=True)
class ImportRequest:
    """Options of the command.

    ``samples`` is an NPZ file for the dynamic range, multiplied by ``scale``. ``estimate`` names cores to synthesise:
    ``instantft:small``.
    """

    model: OwnNetwork
    samples: Path | None
    scale: float
    estimate: tuple[str, ...]


def run(request: ImportRequest) -> dict[str, Any]:
    """Import a model and describe it.

    Returns
    -------
    dict
        ``network``, ``text``, ``input``, ``left_to_host``, ``stages``, ``parameters``, ``macs``, ``formats``, ``cores``
        and ``advice``.
    """
    known = [f"{kind.name}:{preset}" for kind in CORES.values() for preset in kind.presets]
    if unknown := set(request.estimate).difference(known):
        raise UserError(f"--estimate {min(unknown)}: there is no such core; there are: {', '.join(known)}")
    samples = inputs_of(request.samples, request.scale) if request.samples else None
    network, original = request.model.load()
    module = described(network, original)
    if samples is not None and request.samples is not None:
        check_shape(network, samples.shape, request.samples)
    parameters = folded(network, module)
    of_samples = samples_advice([] if samples is None else [samples], request.scale)
    clipped, ranges = dynamic_range(network, module, parameters, samples)
    byte_inputs = has_byte_inputs(network) if samples is None else samples.inputs.dtype == np.uint8
    cores = core_facts(network, byte_inputs, request.estimate)
    weighted = network.weighted
    stages = [
        _stage(number, module.titles[index], stage, span)
        for number, (index, stage, span) in enumerate(zip(weighted, network.stages, ranges, strict=True))
    ]
    return {
        "network": network.name,
        "text": text_of(network),
        "input": list(network.input_shape),
        "left_to_host": module.left_to_host,
        "parameters": network.parameters,
        "macs": sum(stage.macs for stage in network.stages),
        "formats": {"activations": str(Q8_16), "parameters": str(Q4_12)},
        "stages": stages,
        "inputs_clipped": clipped,
        "cores": cores,
        "advice": [*_autoencoder(network), *_advice(stages, of_samples, cores)],
    }


def _stage(number: int, title: str, stage: Stage, span: StageRange) -> dict[str, Any]:
    return {
        "stage": number,
        "name": title,
        "layer": type(stage.layer).__name__,
        "behind": ", ".join(_behind(stage)),
        "source": _numbers(stage.source),
        "residual": None if stage.residual is None else _numbers(stage.residual),
        "input": list(stage.input_shape),
        "output": list(stage.output_shape),
        "parameters": stage.parameters,
        "macs": stage.macs,
        **asdict(span),
    }


def _numbers(tensors: Tensors) -> int | list[int]:
    """Stage that computes a tensor, -1 for the sample; a list for a concatenation."""
    return tensors[0] if len(tensors) == 1 else list(tensors)


def _shown(numbers: int | list[int]) -> str:
    """Format `_numbers`: ``sample``, ``3``, or for a concatenation ``3 | 4``."""
    several = numbers if isinstance(numbers, list) else [numbers]
    return " | ".join("sample" if stage < 0 else str(stage) for stage in several)


def _behind(stage: Stage) -> Iterator[str]:
    """Operations of a stage after the layer, in order."""
    if stage.residual is not None:
        yield f"+ {_shown(_numbers(stage.residual))}"
    if stage.activation is not None:
        yield stage.activation.shown
    if stage.pool is not None:
        padded = " padded" if any(stage.pool.padding) else ""
        yield f"{'max' if isinstance(stage.pool, MaxPool) else 'average'} {by(stage.pool.size)}{padded}"


def has_byte_inputs(network: Network) -> bool:
    """Whether to take a network's samples for bytes if there are no data to tell: true for images."""
    return len(network.input_shape) == 3


def core_facts(network: Network, byte_inputs: bool, estimate: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Fit of a network on each preset of each core; for ``byte_inputs`` see `CoreSpec.fits`.

    ``core``, ``preset`` and ``refusal``; without a refusal the array, cycles, what is tuned, and needs on all boards.
    For ``estimate`` see `ImportRequest`.
    """
    fits = [fit for kind in CORES.values() for fit in kind.fits(network, byte_inputs)]
    return [_core(network, fit, f"{fit.core}:{fit.preset}" in estimate) for fit in fits]


def _core(network: Network, fit: CoreFit, estimate: bool) -> dict[str, Any]:
    """Fit of a network on a preset of a core, with estimated resources on both boards if requested."""
    facts: dict[str, Any] = {"core": fit.core, "preset": fit.preset, "refusal": fit.refusal}
    if fit.spec is None or fit.forward is None:
        return facts
    multipliers = fit.forward.lanes * fit.forward.columns
    fits = fits_on_boards(fit.spec)
    facts |= {
        "tunes": fit.spec.tuned(network.parameters),
        "array": f"{fit.forward.lanes} x {fit.forward.columns}",
        "cycles": fit.cycles,
        "ideal_cycles": -(-sum(stage.macs for stage in network.stages) // multipliers),
        "parameter_bytes": fit.forward.frozen_beats * BEAT,
        "needs": {name: board_fit.needs for name, board_fit in fits.items()},
        "lacks": {name: board_fit.text for name, board_fit in fits.items() if board_fit.lacks},
        "remedies": {name: board_fit.remedies for name, board_fit in fits.items() if board_fit.lacks},
    }
    if estimate:
        facts["utilisation"] = {
            name: board.utilisation(estimate_spec(fit.spec, board.fabric).resources) for name, board in BOARDS.items()
        }
    return facts


def _autoencoder(network: Network) -> Iterator[str]:
    if network.repeats_inputs:
        yield f"as many outputs as inputs, {network.classes}: on cores with loss=mse, which train autoencoders"


def _advice(stages: Sequence[dict[str, Any]], of_samples: str | None, cores: Sequence[dict[str, Any]]) -> Iterator[str]:
    if of_samples:
        yield of_samples
    for stage in stages:
        where = f"stage {stage['stage']} ({stage['name']})"
        if stage["parameters_clipped"]:
            largest = max(stage["weight"], stage["bias"])
            yield parameters_advice(where, stage["parameters_clipped"], stage["parameters"], largest)
        if stage["saturated"]:
            percent = 100 * stage["saturated"] / stage["sums"]
            yield (
                f"{where}: {percent:.3g} % of the sums saturate in {Q8_16}, -128 to 128: scale the samples, "
                "or put batch norm behind the layer"
            )
    yield from refusals(cores)
    for core in cores:
        name = f"{core['core']} {core['preset']}"
        for board, shares in core.get("utilisation", {}).items():
            for resource in ("lut", "ff"):
                if shares[resource] > 100:
                    yield f"{name} does not fit on the {board}: {shares[resource]:.0f} % of its {resource.upper()}"


def refusals(cores: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Why presets refuse a network, presets with the same reason together, and why presets do not fit on boards."""
    for reason in dict.fromkeys(core["refusal"] for core in cores if core["refusal"]):
        names = [f"{core['core']} {core['preset']}" for core in cores if core["refusal"] == reason]
        yield f"not on {'any core' if len(names) == len(cores) else ', '.join(names)}: {reason}"
    for core in cores:
        yield from (f"{core['core']} {core['preset']} {text}" for text in core.get("lacks", {}).values())


def summary(result: dict[str, Any], show: Callable[..., None]) -> list[str]:
    """Show the result of `run` as tables with ``show(columns, rows, title)``; returns the lines below the tables."""
    title = f"{result['network']}, {' x '.join(map(str, result['input']))}"
    measured = any(stage["sums"] for stage in result["stages"])
    columns = ["", "name", "layer", "reads", "then", "input", "output", "parameters", "MACs", "largest weight"]
    rows = []
    for stage in result["stages"]:
        shapes = (" x ".join(map(str, stage[which])) for which in ("input", "output"))
        reads = _shown(stage["source"])
        sizes = (f"{stage[which]:,}" for which in ("parameters", "macs"))
        row = [str(stage["stage"]), stage["name"], stage["layer"], reads, stage["behind"], *shapes, *sizes]
        row.append(f"{stage['weight']:.3g}")
        if measured:
            row += [f"{stage['least']:.3g} to {stage['most']:.3g}", f"{stage['saturated']:,}"]
        rows.append(row)
    show([*columns, *(["outputs", "saturated"] if measured else [])], rows, title)
    show(("core", "array", "cycles a sample", "ideal", "DSP", *BOARDS), [*_cores(result)])
    formats = ", ".join(f"{what} {which}" for what, which in result["formats"].items())
    return [
        f'as one line, for every command: --set "network={result["text"]}"',
        f"{result['parameters']:,} parameters, {result['macs']:,} multiply-accumulates; {formats}",
        "cycles: words of the array, forward; BRAM36, URAM, DSP: of the core that is emitted for the board, and their "
        "share of it; --estimate CORE:PRESET synthesises a core, for LUT and FF",
        *(f"left to the host: {what}" for what in result["left_to_host"]),
        *result["advice"],
    ]


def _cores(result: dict[str, Any]) -> Iterator[list[str]]:
    for core in result["cores"]:
        name = f"{core['core']} {core['preset']}"
        if core["refusal"]:
            yield [name, "refused, see below", "", "", "", *[""] * len(BOARDS)]
            continue
        dsp = next(iter(core["needs"].values()))["dsp"]
        shares = [share_of(core, board) for board in BOARDS]
        yield [name, core["array"], f"{core['cycles']:,}", f"{core['ideal_cycles']:,}", str(dsp), *shares]


def share_of(core: dict[str, Any], board: str) -> str:
    """RAM blocks and the share of a board that they take, or the shares of all estimated resources."""
    if "utilisation" in core:
        shares = core["utilisation"][board].items()
        return ", ".join(f"{name} {'none there' if share is None else f'{share:.1f}'} %" for name, share in shares)
    resources = BOARDS[board].resources
    needed = ((name, core["needs"][board][name]) for name in ("bram36", "uram") if resources[name])
    text = ", ".join(f"{count:g} {name.upper()} ({100 * count / resources[name]:.0f} %)" for name, count in needed)
    return f"{text}: too many" if board in core["lacks"] else text
