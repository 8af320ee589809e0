"""`fabtune import`: a network of layers if the model is one, else a transformer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...golden.errors import UserError
from ..own_network import OwnNetwork
from . import network, transformer, which


def run(
    model: OwnNetwork, samples: Path | None, sentences: Path | None, scale: float, estimate: tuple[str, ...]
) -> dict[str, Any]:
    """Import a model and describe it: see `network.run` and `transformer.run`; ``which`` is `which.first_line`.

    A folder is a transformer. A module or ONNX file is a transformer if it is no network of layers and has operations
    that only transformers have. For ``estimate`` see `network.ImportRequest`.
    """
    described = _described(model, samples, sentences, scale, estimate)
    return described | {"which": which.first_line(described.get("cores") or described["presets"])}


def _described(
    model: OwnNetwork, samples: Path | None, sentences: Path | None, scale: float, estimate: tuple[str, ...]
) -> dict[str, Any]:
    request = transformer.TransformerRequest(model, samples, sentences, scale)
    refusal: UserError | None = None
    if not transformer.is_language_model(Path(model.model)) and not sentences:
        try:
            return network.run(network.ImportRequest(model, samples, scale, estimate))
        except UserError as error:
            refusal = error
    described = transformer.run(request)
    if described is None:
        raise refusal or UserError(f"--sentences is for the folder of a transformer, which {model.model} is not")
    if estimate:
        raise UserError(f"--estimate {estimate[0]} is for a network of layers, which {model.model} is not")
    return described


def summary(result: dict[str, Any], show: Callable[..., None]) -> list[str]:
    """Show the result of `run` as tables; returns the lines below the tables."""
    lines = transformer.summary(result, show) if "operations" in result else network.summary(result, show)
    return [*lines, result["which"]]
