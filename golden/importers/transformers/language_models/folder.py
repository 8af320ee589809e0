"""Models of the library `transformers` from their folder, with the pooling that sentence-transformers writes there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from .checkpoint import Checkpoint
from .families import read_checkpoint
from .language_model import LanguageModel
from .pooling import pooling_of


def read_folder(folder: Path) -> LanguageModel:
    """Import a model from its folder.

    Raises
    ------
    UserError
        If it is of another kind, or something in it has no place in the normal form.
    """
    return replace(read_checkpoint(Checkpoint(folder)), pooling=pooling_of(folder))
