"""A tuned decoder as a GGUF file: the user's file with the tuned matrices in float32."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UserError
from ...files import whole
from .tuned_folder import with_label_words
from .tuned_sentences import TunedSentences

SUFFIX = ".gguf"
_HEAD, _KIND = "output.weight", "general.architecture"
_ROTATED = re.compile(r"blk\.\d+\.attn_([qk])\..+")
_GENERATED = re.compile(r"GGUF\..+")
"""Fields of the file's head, which the writer makes."""


def refuse_gguf(tuned_prompts: bool, source: Path, target: Path) -> None:
    """Refuse a GGUF file for a model, before any work.

    Raises
    ------
    UserError
        If the model is no GGUF file, the name has another suffix, or the head is one of prompts.
    """
    if source.suffix != SUFFIX:
        raise UserError(f"{source} is no GGUF file, whose settings a GGUF file needs: take --to transformers")
    if target.suffix != SUFFIX:
        raise UserError(f"{target}: a file of --to gguf ends in {SUFFIX}")
    if tuned_prompts:
        raise UserError("a GGUF file has no place for a head of prompts: tune with label words, --prompt label-words")


def write_gguf(tuned: TunedSentences, source: Path, target: Path) -> None:
    """Write the user's file with the tensors that the hardware multiplies, replacing an older file.

    The rows of the label words are part of the head, ``output.weight``; where the file has none, it is the embeddings
    with these rows.

    Raises
    ------
    UserError
        If the package `gguf` is missing, or as `refuse_gguf`.
    """
    refuse_gguf(tuned.sentences.wording is None, source, target)
    try:
        from gguf import GGUFReader, GGUFWriter
    except ImportError:
        raise UserError("GGUF files need the package gguf: pip install 'fabtune[gguf]'") from None
    reader = GGUFReader(source)
    kind = str(reader.fields[_KIND].contents())
    changed = {name: _in_gguf(values, name, reader, kind) for name, values in tuned.tensors({}).items() if "." in name}
    rows = changed.pop("label_words.weight")
    with whole(target) as unfinished:
        writer = GGUFWriter(unfinished, kind, endianess=reader.endianess)
        for name, entry in reader.fields.items():
            if name != _KIND and not _GENERATED.fullmatch(name):
                inner = entry.types[-1] if len(entry.types) > 1 else None
                writer.add_key_value(name, entry.contents(), entry.types[0], sub_type=inner)
        for tensor in reader.tensors:
            if tensor.name in changed:
                writer.add_tensor(tensor.name, changed[tensor.name])
            elif tensor.name != _HEAD:
                writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        writer.add_tensor(_HEAD, with_label_words(tuned, _head(reader), rows))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def _head(reader: Any) -> NDArray[np.float32] | None:
    from gguf import quants

    for tensor in reader.tensors:
        if tensor.name == _HEAD:
            values: NDArray[np.float32] = quants.dequantize(tensor.data, tensor.tensor_type)
            return values
    return None


def _in_gguf(values: NDArray[np.float32], name: str, reader: Any, kind: str) -> NDArray[np.float32]:
    """Tensor in the order of GGUF: Llama's rows of queries and keys with the features of a rotated pair together."""
    match = _ROTATED.fullmatch(name)
    if kind != "llama" or not match:
        return values
    heads = reader.fields[f"{kind}.attention.head_count"].contents()
    if match[1] == "k" and (shared := reader.fields.get(f"{kind}.attention.head_count_kv")):
        heads = shared.contents()
    pairs = values.reshape(heads, 2, len(values) // heads // 2, -1)
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(values.shape))
