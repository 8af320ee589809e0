"""A tuned sentence classifier as an ONNX file, run by ONNX Runtime."""

from dataclasses import replace

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.train.text.label_words import Wording
from fabtune.golden.train.text.sentence_model import sentence_model
from fabtune.golden.train.text.tuned_onnx import refuse_onnx, write_onnx
from fabtune.golden.train.text.tuned_sentences import TunedSentences


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["prompts", "label-words"])
def test_logits_are_those_of_the_floats(tiny_transformer, tiny_decoder, task, tmp_path, kind):
    onnxruntime = pytest.importorskip("onnxruntime")
    wording = None if kind == "prompts" else Wording("{0} It was", (" bad", " great"))
    folder = tiny_decoder if wording else tiny_transformer
    untuned, rng = TunedSentences.untuned(sentence_model(folder, task.prompts, wording)), np.random.default_rng(2)
    integers = {name: values + rng.integers(-99, 99, values.shape) for name, values in untuned.integers.items()}
    tuned = replace(untuned, integers=integers)
    write_onnx(tuned, folder, tmp_path / "out.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["out.onnx"]
    texts = task.test.sentences
    tokens = tuned.sentences.tokens(texts)
    mask = (tokens >= 0).astype(np.int64)
    session = onnxruntime.InferenceSession(tmp_path / "out.onnx")
    (logits,) = session.run(["logits"], {"input_ids": np.maximum(tokens, 0), "attention_mask": mask})
    assert np.abs(logits - tuned.float_logits(texts)).max() < 1e-4


def test_what_is_refused(tmp_path):
    with pytest.raises(UserError, match="is no folder of transformers"):
        refuse_onnx(tmp_path / "a.gguf", tmp_path / "out.onnx")
    with pytest.raises(UserError, match=r"ends in \.onnx"):
        refuse_onnx(tmp_path, tmp_path / "out")
