"""A tuned decoder as a GGUF file: the same logits, and the user's tokenizer and settings."""

from dataclasses import replace

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.train.text.label_words import Wording
from fabtune.golden.train.text.sentence_model import sentence_model
from fabtune.golden.train.text.tuned_gguf import refuse_gguf, write_gguf
from fabtune.golden.train.text.tuned_sentences import TunedSentences

gguf = pytest.importorskip("gguf")
pytest.importorskip("transformers")

TOKENS = ["<s>", "</s>", *"abcd", "\u0120", "ab", "\u0120a", "\u0120ab", "1", "11"]
SIZES = {
    "block_count": 1,
    "embedding_length": 32,
    "feed_forward_length": 64,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
}
PARTS = {
    "attn_q": (32, 32),
    "attn_k": (16, 32),
    "attn_v": (16, 32),
    "attn_output": (32, 32),
    "ffn_gate": (64, 32),
    "ffn_up": (64, 32),
    "ffn_down": (32, 64),
}
SENTENCES = ("abab", "1 11 cd", "d c b a")


@pytest.fixture(params=[False, True])
def source(request, tmp_path):
    """A Llama-like file with a tokenizer; matrices in Q8_0, with a head of its own or with tied embeddings."""
    writer, rng = gguf.GGUFWriter(tmp_path / "mine.gguf", "llama"), np.random.default_rng(1)
    for name, number in SIZES.items():
        writer.add_uint32(f"llama.{name}", number)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_string("tokenizer.ggml.model", "gpt2")
    writer.add_string("general.name", "Mine")
    writer.add_array("tokenizer.ggml.tokens", TOKENS)
    writer.add_array("tokenizer.ggml.token_type", [3, 3, *[1] * 10])
    writer.add_array("tokenizer.ggml.merges", ["a b", "\u0120 a", "\u0120 ab", "1 1"])
    writer.add_uint32("tokenizer.ggml.bos_token_id", 0)
    kind = gguf.GGMLQuantizationType.Q8_0
    shapes = {"token_embd": (12, 32), **{f"blk.0.{part}": shape for part, shape in PARTS.items()}}
    for name, shape in (shapes | ({} if request.param else {"output": (12, 32)})).items():
        values = rng.normal(0, 0.3, shape).astype(np.float32)
        writer.add_tensor(f"{name}.weight", gguf.quants.quantize(values, kind), raw_dtype=kind)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", rng.normal(1, 0.1, 32).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tmp_path / "mine.gguf"


def test_a_tuned_decoder_as_gguf(source, tmp_path):
    sentences = sentence_model(source, (), Wording("{0}", ("a", "b", "11")))
    untuned, rng = TunedSentences.untuned(sentences), np.random.default_rng(2)
    integers = {name: values + rng.integers(-99, 99, values.shape) for name, values in untuned.integers.items()}
    tuned = replace(untuned, integers=integers)
    target = tmp_path / "out.gguf"
    write_gguf(tuned, source, target)
    again = sentence_model(target, (), sentences.wording)
    assert again.names == sentences.names
    for name, values in tuned.floats.items():
        assert np.array_equal(again.parameters[name], values.astype(np.float32)), again.names[name]
    fields = [gguf.GGUFReader(path).fields for path in (source, target)]
    assert {name: one.contents() for name, one in fields[0].items() if name[:4] != "GGUF"} == {
        name: one.contents() for name, one in fields[1].items() if name[:4] != "GGUF"
    }
    assert np.abs(TunedSentences.untuned(again, "18-bit").logits(SENTENCES) - tuned.logits(SENTENCES)).max() < 1e-3


def test_what_is_refused(tmp_path):
    with pytest.raises(UserError, match="is no GGUF file"):
        refuse_gguf(False, tmp_path, tmp_path / "out.gguf")
    with pytest.raises(UserError, match=r"ends in \.gguf"):
        refuse_gguf(False, tmp_path / "a.gguf", tmp_path / "out")
    with pytest.raises(UserError, match="no place for a head of prompts"):
        refuse_gguf(True, tmp_path / "a.gguf", tmp_path / "out.gguf")
