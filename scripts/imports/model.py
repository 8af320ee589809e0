"""`fabtune import`: a network of layers where a model is one, else a transformer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...golden.errors import UserError
from ..own_network import OwnNetwork
from . import network, transformer


def run(
    model: OwnNetwork, samples: Path | None, sentences: Path | None, scale: float, estimate: tuple[str, ...]
) -> dict[str, Any]:
    """Import a model and describe it.

    Parameters
    ----------
    model : OwnNetwork
        A folder is a transformer; a module or ONNX file is one if it is no network of layers, and has parts that only a
        transformer has.
    samples, sentences : Path or None
    scale : float
    estimate : tuple of str
        See `network.ImportRequest`.

    Returns
    -------
    dict
        See `network.run` and `transformer.run`.
    """
    request = transformer.TransformerRequest(model, samples, sentences, scale)
    refusal: UserError | None = None
    if not transformer.is_language_model(Path(model.model)) and not sentences:
        try:
            return network.run(network.ImportRequest(model, samples, scale, estimate))
        except UserError as error:
            refusal = error
    found = transformer.run(request)
    if found is None:
        raise refusal or UserError(f"--sentences is for the folder of a transformer, which {model.model} is not")
    if estimate:
        raise UserError(f"--estimate {estimate[0]} is for a network of layers, which {model.model} is not")
    return found


def summary(result: dict[str, Any], show: Callable[..., None]) -> list[str]:
    """Show what `run` gave as tables, and return the lines below them."""
    return transformer.summary(result, show) if "operations" in result else network.summary(result, show)
