"""`fabtune export` and `fabtune delta apply` on sentences: folders of `transformers`, ONNX and GGUF files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...golden.errors import UserError
from ...golden.train.text.tuned_folder import refuse_folder, write_folder
from ...golden.train.text.tuned_gguf import SUFFIX, refuse_gguf, write_gguf
from ...golden.train.text.tuned_onnx import refuse_onnx, write_onnx
from ...golden.train.text.tuned_sentences import SentenceRun
from ..results import refuse_outputs


def export_sentences(run: SentenceRun, source: Path, kind: str, output: Path, force: bool) -> dict[str, Any]:
    """Write a run on sentences; returns facts for ``--json``.

    ``source`` is the model before tuning, ``kind`` is "transformers" for a folder, "onnx" or
    "gguf".

    Raises
    ------
    UserError
        If the kind cannot hold the model, the output may not be replaced, or run and model do not fit.
    """
    if kind == "transformers":
        refuse_folder(source, output, force)
        write_folder(run.tuned(source), source, output, run.metadata, force)
        load = f'AutoModel.from_pretrained("{output}"); {output / "README.md"} shows how to classify a sentence'
    elif kind == "gguf":
        refuse_gguf("template" not in run.metadata, source, output)
        refuse_outputs([output], None, force)
        write_gguf(run.tuned(source), source, output)
        load = "llama.cpp reads it"
    elif kind == "onnx":
        refuse_onnx(source, output)
        refuse_outputs([output], None, force)
        write_onnx(run.tuned(source), source, output)
        load = f'onnxruntime.InferenceSession("{output}"), input_ids and attention_mask to logits'
    else:
        other = "gguf" if source.suffix == SUFFIX else "transformers"
        raise UserError(f"a run on sentences goes to no --to {kind}: take --to {other}")
    return {"output": str(output), "to": kind, "load": load}
