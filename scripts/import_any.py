"""`fabtune import`: a network of layers where a model is one, else a transformer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..golden.errors import UserError
from . import import_model, import_transformer
from .own_network import OwnNetwork


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
        See `import_model.ImportRequest`.

    Returns
    -------
    dict
        See `import_model.run` and `import_transformer.run`.
    """
    request = import_transformer.TransformerRequest(model, samples, sentences, scale)
    refusal: UserError | None = None
    if not Path(model.model).is_dir() and not sentences:
        try:
            return import_model.run(import_model.ImportRequest(model, samples, scale, estimate))
        except UserError as error:
            refusal = error
    found = import_transformer.run(request)
    if found is None:
        raise refusal or UserError(f"--sentences is for the folder of a transformer, which {model.model} is not")
    if estimate:
        raise UserError(f"--estimate {estimate[0]} is for a network of layers, which {model.model} is not")
    return found


def summary(result: dict[str, Any], show: Callable[..., None]) -> list[str]:
    """Show what `run` gave as tables, and return the lines below them."""
    return import_transformer.summary(result, show) if "operations" in result else import_model.summary(result, show)
