"""Tokenizers of GGUF files: small generated ones, and refusals."""

import pytest

from fabtune.golden.errors import UserError
from fabtune.golden.importers.transformers.language_models.gguf_tokenizer import gguf_tokenizer

gguf = pytest.importorskip("gguf")
transformers = pytest.importorskip("transformers")

TOKENS = ["<s>", "</s>", *"abcd", "\u0120", "ab", "\u0120a", "\u0120ab", "1", "11", "<mine>"]
GIVEN = {
    "model": "gpt2",
    "pre": "gpt-2",
    "tokens": TOKENS,
    "token_type": [3, 3, *[1] * 10, 4],
    "merges": ["a b", "\u0120 a", "\u0120 ab", "1 1"],
    "bos_token_id": 0,
    "eos_token_id": 1,
}


def written(path, **changes):
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in (GIVEN | changes).items():
        add = {bool: writer.add_bool, int: writer.add_uint32, str: writer.add_string, list: writer.add_array}
        if value is not None:
            add[type(value)](f"tokenizer.ggml.{key}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tokens(made, text):
    return made.convert_ids_to_tokens(made(text)["input_ids"])


def test_pairs_are_merged_and_marks_are_whole(tmp_path):
    made = gguf_tokenizer(written(tmp_path / "a.gguf"))
    assert tokens(made, "ab ab c<mine>a</s>") == ["ab", "\u0120ab", "\u0120", "c", "<mine>", "a", "</s>"]
    assert made.bos_token == "<s>"
    assert made("11")["input_ids"] == [11]
    assert made.decode(made("ab abc")["input_ids"]) == "ab abc"


def test_splits_are_those_of_the_name(tmp_path):
    assert tokens(gguf_tokenizer(written(tmp_path / "a.gguf", pre="smollm")), "a11") == ["a", "1", "1"]
    assert tokens(gguf_tokenizer(written(tmp_path / "a.gguf", pre="llama-bpe")), "a11") == ["a", "11"]


def test_ends_are_those_that_are_asked_for(tmp_path):
    assert tokens(gguf_tokenizer(written(tmp_path / "a.gguf", add_bos_token=True)), "a") == ["<s>", "a"]
    both = written(tmp_path / "a.gguf", add_bos_token=True, add_eos_token=True)
    assert tokens(gguf_tokenizer(both), "a") == ["<s>", "a", "</s>"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "llama"}, "a tokenizer of kind 'llama'.*; read is kind 'gpt2', split as gpt-2, smollm"),
        ({"pre": "mystery"}, "split as 'mystery'"),
        ({"model": None}, "has no tokenizer.ggml.model"),
        ({"merges": ["ab"]}, "or a merge that is not two tokens"),
        ({"merges": ["a z"]}, "merges that are not its tokens'"),
        ({"merges": [1, 2]}, "tokenizer.ggml.merges that is not a list of texts"),
        ({"tokens": [*TOKENS[:-1], "a"]}, "has a token twice"),
        ({"token_type": [1]}, "token_type that is not a list of 13 numbers"),
        ({"bos_token_id": 13}, "bos_token_id = 13, and 13 tokens"),
        ({"add_bos_token": True, "bos_token_id": None}, "add_bos_token, and no bos_token_id"),
    ],
)
def test_tokenizers_that_are_refused(tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        gguf_tokenizer(written(tmp_path / "a.gguf", **changes))
