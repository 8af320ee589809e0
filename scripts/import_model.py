"""`fabtune import`: from a user's model to what it became, where it fits, and what its tensors range over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..boards.board import BOARDS, Board
from ..boards.estimate.estimate import estimate_spec
from ..golden.cores.fit import CoreFit
from ..golden.datasets.npz import inputs_of
from ..golden.errors import UserError
from ..golden.fixed import Q4_12, Q8_16
from ..golden.models.importers.folding import described, folded
from ..golden.models.layers import MaxPool, Weighted, by
from ..golden.models.network import Network
from ..golden.models.stages import Stage
from ..golden.models.text import text_of
from ..golden.registry import CORES
from ..golden.train.dynamic_range import StageRange, dynamic_range
from ..golden.train.range_advice import parameters_advice, samples_advice
from .own_network import OwnNetwork

BRAM36_BITS = 36 * 1024
URAM_BITS = 288 * 1024


@dataclass(frozen=True)
class ImportRequest:
    """Options of the command.

    Parameters
    ----------
    model : OwnNetwork
    samples : Path or None
        NPZ file for the dynamic range.
    scale : float
        Factor by which they are multiplied.
    estimate : tuple of str
        Cores to synthesise: ``instantft:small``.
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
        ``network``, ``text``, ``input``, ``stages``, ``parameters``, ``macs``, ``formats``, ``cores`` and ``advice``.
    """
    known = [f"{kind.name}:{preset}" for kind in CORES.values() for preset in kind.presets]
    if unknown := set(request.estimate).difference(known):
        raise UserError(f"--estimate {min(unknown)}: there is no such core; there are: {', '.join(known)}")
    samples = inputs_of(request.samples, request.scale) if request.samples else None
    network, own = request.model.load()
    module = described(network, own)
    if samples is not None and samples.shape != network.input_shape:
        raise UserError(f"{network.name} takes samples of {network.input_shape}, {request.samples} has {samples.shape}")
    parameters = folded(network, module)
    of_samples = samples_advice([] if samples is None else [samples], request.scale)
    clipped, ranges = dynamic_range(network, module, parameters, samples)
    byte_inputs = len(network.input_shape) == 3 if samples is None else samples.inputs.dtype == np.uint8
    fits = [fit for kind in CORES.values() for fit in kind.fits(network, byte_inputs)]
    cores = [_core(network, fit, f"{fit.core}:{fit.preset}" in request.estimate) for fit in fits]
    weighted = [at for at, layer in enumerate(network.layers) if isinstance(layer, Weighted)]
    stages = [
        _stage(number, module.titles[at], stage, span)
        for number, (at, stage, span) in enumerate(zip(weighted, network.stages, ranges, strict=True))
    ]
    return {
        "network": network.name,
        "text": text_of(network),
        "input": list(network.input_shape),
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
        "source": stage.source,
        "residual": stage.residual,
        "input": list(stage.input_shape),
        "output": list(stage.output_shape),
        "parameters": stage.parameters,
        "macs": stage.macs,
        **asdict(span),
    }


def _behind(stage: Stage) -> Iterator[str]:
    """Parts of a stage behind its layer, in order."""
    if stage.residual is not None:
        yield f"+ {'sample' if stage.residual < 0 else stage.residual}"
    if stage.activation is not None:
        limit, slope = stage.activation.limit, stage.activation.slope
        yield f"{f'leaky {slope:g} ' if slope else ''}ReLU{'' if limit is None else f'{limit:g}'}"
    if stage.pool is not None:
        padded = " padded" if any(stage.pool.padding) else ""
        yield f"{'max' if isinstance(stage.pool, MaxPool) else 'average'} {by(stage.pool.size)}{padded}"


def _core(network: Network, fit: CoreFit, estimate: bool) -> dict[str, Any]:
    """Describe a network on a preset of a core; with its resources on both boards, where they are to be estimated."""
    found: dict[str, Any] = {"core": fit.core, "preset": fit.preset, "refusal": fit.refusal}
    if fit.spec is None or fit.forward is None:
        return found
    multipliers = fit.forward.lanes * fit.forward.columns
    bits = sum(fit.memories.values())
    found |= {
        "array": f"{fit.forward.lanes} x {fit.forward.columns}",
        "cycles": fit.cycles,
        "ideal_cycles": -(-sum(stage.macs for stage in network.stages) // multipliers),
        "memory_bits": fit.memories,
        "least_memory_percent": {name: round(100 * bits / _memory(board), 2) for name, board in BOARDS.items()},
    }
    if estimate:
        found["utilisation"] = {
            name: board.utilisation(estimate_spec(fit.spec, board.fabric).resources) for name, board in BOARDS.items()
        }
    return found


def _memory(board: Board) -> int:
    """Bits of a board's block and ultra RAM."""
    return board.resources["bram36"] * BRAM36_BITS + board.resources["uram"] * URAM_BITS


def _autoencoder(network: Network) -> Iterator[str]:
    """Say that a network is taken for an autoencoder."""
    if network.repeats_inputs:
        yield f"as many outputs as inputs, {network.classes}: on cores with loss=mse, which train autoencoders"


def _advice(stages: Sequence[dict[str, Any]], of_samples: str | None, cores: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Say what to change where something does not fit."""
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
    for reason in dict.fromkeys(core["refusal"] for core in cores if core["refusal"]):
        names = [f"{core['core']} {core['preset']}" for core in cores if core["refusal"] == reason]
        yield f"not on {'any core' if len(names) == len(cores) else ', '.join(names)}: {reason}"
    for core in cores:
        for board, shares in core.get("utilisation", {}).items():
            for resource, share in shares.items():
                if share is None or share > 100:
                    takes = "which it lacks" if share is None else f"{share:.0f} %"
                    yield f"{core['core']} {core['preset']} does not fit on {board}: {resource}, {takes}"


def summary(result: dict[str, Any], show: Callable[..., None]) -> list[str]:
    """Show what `run` gave as tables, and return the lines below them.

    Parameters
    ----------
    result : dict
    show : callable
        Shows a table: columns, rows, title.
    """
    title = f"{result['network']}, {' x '.join(map(str, result['input']))}"
    measured = any(stage["sums"] for stage in result["stages"])
    columns = ["", "name", "layer", "reads", "then", "input", "output", "parameters", "MACs", "largest weight"]
    rows = []
    for stage in result["stages"]:
        shapes = (" x ".join(map(str, stage[which])) for which in ("input", "output"))
        reads = "sample" if stage["source"] < 0 else str(stage["source"])
        sizes = (f"{stage[which]:,}" for which in ("parameters", "macs"))
        row = [str(stage["stage"]), stage["name"], stage["layer"], reads, stage["behind"], *shapes, *sizes]
        row.append(f"{stage['weight']:.3g}")
        if measured:
            row += [f"{stage['least']:.3g} to {stage['most']:.3g}", f"{stage['saturated']:,}"]
        rows.append(row)
    show([*columns, *(["outputs", "saturated"] if measured else [])], rows, title)
    boards = (f"% of {name}" for name in BOARDS)
    show(("core", "array", "cycles a sample", "ideal", "memory, kB", *boards), [*_cores(result)])
    formats = ", ".join(f"{what} {which}" for what, which in result["formats"].items())
    return [
        f'as one line, for every command: --set "network={result["text"]}"',
        f"{result['parameters']:,} parameters, {result['macs']:,} multiply-accumulates; {formats}",
        "cycles: words of the array, forward; memory: parameters, activations and outputs, which is the least; "
        "--estimate CORE:PRESET synthesises a core",
        *result["advice"],
    ]


def _cores(result: dict[str, Any]) -> Iterator[list[str]]:
    for core in result["cores"]:
        name = f"{core['core']} {core['preset']}"
        if core["refusal"]:
            yield [name, "refused, see below", "", "", "", *[""] * len(BOARDS)]
            continue
        kilobytes = sum(core["memory_bits"].values()) / 8192
        shares = [_share(core, board) for board in BOARDS]
        yield [name, core["array"], f"{core['cycles']:,}", f"{core['ideal_cycles']:,}", f"{kilobytes:.1f}", *shares]


def _share(core: dict[str, Any], board: str) -> str:
    """Share of a board: its memory at least, or all resources where they were estimated."""
    if "utilisation" not in core:
        return f"memory {core['least_memory_percent'][board]:.1f}"
    shares = core["utilisation"][board].items()
    return ", ".join(f"{name} {'none there' if share is None else f'{share:.1f}'}" for name, share in shares)
