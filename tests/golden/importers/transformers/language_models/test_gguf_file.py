"""GGUF files written by `gguf` from models of `transformers`, and refusals."""

import struct

import numpy as np
import pytest
import torch

from fabtune.golden.errors import UserError
from fabtune.golden.importers.transformers.language_models.gguf_file import read_gguf
from fabtune.golden.transformer.float_model import run_float

gguf = pytest.importorskip("gguf")
transformers = pytest.importorskip("transformers")

LLAMA = {
    "llama.block_count": 2,
    "llama.embedding_length": 32,
    "llama.feed_forward_length": 64,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.freq_base": 500.0,
    "llama.rope.dimension_count": 8,
    "llama.vocab_size": 50,
}
QWEN = {f"qwen2.{key.partition('.')[2]}": value for key, value in LLAMA.items()}
PARTS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
TOKENS = [5, 6, 7, 8, 9]


def model_of(kind="Llama", **changes):
    """A model with random weights; Qwen2 has biases for queries, keys and values."""
    torch.manual_seed(3)
    settings = {
        "vocab_size": 50,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 64,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
        "use_sliding_window": False,
    }
    config = getattr(transformers, f"{kind}Config")(**settings | changes)
    made = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    with torch.no_grad():
        for one in made.parameters():
            one += torch.randn_like(one) * 0.2
    return made


def tensors_of(model, heads=4, key_heads=2):
    """Tensors by llama.cpp's names; rows of Llama's queries and keys permuted as by its converter."""
    found = {}
    for name, one in model.state_dict().items():
        values, (part, _, kind) = one.numpy(), name.removeprefix("model.").rpartition(".")
        if part.startswith("layers."):
            _, layer, part = part.split(".", 2)
            count = {"self_attn.q_proj": heads, "self_attn.k_proj": key_heads}.get(part)
            if count and model.config.model_type == "llama":
                halves = values.reshape(count, 2, len(values) // count // 2, -1)
                values = halves.swapaxes(1, 2).reshape(values.shape)
            found[f"blk.{layer}.{PARTS[part]}.{kind}"] = values
        elif part != "lm_head" or not model.config.tie_word_embeddings:
            found[f"{ {'embed_tokens': 'token_embd', 'norm': 'output_norm', 'lm_head': 'output'}[part] }.{kind}"] = (
                values
            )
    return found


def written(path, metadata, tensors, architecture="llama", kinds=None):
    """A file; `kinds` lists the types of tensors other than float32."""
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in metadata.items():
        kinds_of = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string, list: writer.add_array}
        kinds_of[type(value)](key, value)
    for name, values in tensors.items():
        kind = (kinds or {}).get(name)
        if kind is None:
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def logits(path):
    found = read_gguf(path)
    network, parameters = found.builder.finish()
    hidden = run_float(network, parameters, found.rows(np.array(TOKENS)), (len(TOKENS),))[-1]
    return hidden @ found.head.astype(np.float64).T, found


def expected(model):
    with torch.no_grad():
        return model.double()(torch.tensor([TOKENS])).logits[0].numpy()


@pytest.mark.parametrize(
    ("kind", "tied", "metadata"), [("Llama", False, LLAMA), ("Llama", True, LLAMA), ("Qwen2", True, QWEN)]
)
def test_logits_are_the_library_s(tmp_path, kind, tied, metadata):
    model = model_of(kind, tie_word_embeddings=tied)
    tensors = tensors_of(model)
    path = written(tmp_path / "a.gguf", metadata, tensors, kind.lower())
    found, imported = logits(path)
    np.testing.assert_allclose(found, expected(model), rtol=1e-6, atol=1e-6)
    assert (imported.head is imported.words) is tied
    assert imported.causal
    assert imported.converted == ()
    assert set(imported.tensor_names.values()) | {"token_embd.weight", "output.weight"} >= set(tensors)


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
def test_shorter_values_and_blocks_are_those_of_the_file(tmp_path, kind):
    model, number = model_of(), getattr(gguf.GGMLQuantizationType, kind)
    tensors = tensors_of(model)
    rounded = {
        name: gguf.quants.dequantize(gguf.quants.quantize(one, number), number)
        for name, one in tensors.items()
        if one.ndim == 2
    }
    exact = logits(written(tmp_path / "exact.gguf", LLAMA, tensors | rounded))[0]
    found, imported = logits(written(tmp_path / "a.gguf", LLAMA, tensors, kinds=dict.fromkeys(rounded, number)))
    np.testing.assert_array_equal(found, exact)
    assert imported.converted == ({"F16": "float16", "BF16": "bfloat16"}.get(kind, kind),)


@pytest.mark.parametrize(
    ("metadata", "architecture", "message"),
    [
        ({}, "gemma", "general.architecture = 'gemma'; read are llama, qwen2"),
        ({"llama.rope.scaling.type": "yarn"}, "llama", "scaling.type = 'yarn': scaled rotary positions"),
        ({"llama.expert_count": 8}, "llama", "llama.expert_count = 8, which nothing here computes"),
        ({"llama.rope.dimension_count": 4}, "llama", "dimension_count = 4, and heads of 8 features"),
        ({"llama.block_count": 0}, "llama", "block_count = 0, which is not a whole number of at least 1"),
        ({"llama.attention.head_count_kv": [2, 2]}, "llama", r"head_count_kv = \[2, 2\], which is not a whole"),
        ({"llama.attention.layer_norm_rms_epsilon": None}, "llama", "has no llama.attention.layer_norm_rms_epsilon"),
        ({"llama.block_count": 1}, "llama", "tensor blk.1.* has no place in a llama model"),
        ({"llama.block_count": 3}, "llama", "has no tensor blk.2.attn_norm.weight"),
        (
            {"llama.attention.key_length": 7, "llama.rope.dimension_count": 7},
            "llama",
            "heads of 7 features: rotary positions turn pairs of them",
        ),
        (
            {"llama.attention.head_count": 32, "llama.rope.dimension_count": 1},
            "llama",
            "heads of 1 features: rotary positions turn pairs of them",
        ),
    ],
)
def test_settings_that_are_refused(tmp_path, metadata, architecture, message):
    given = {key: value for key, value in (LLAMA | metadata).items() if value is not None}
    path = written(tmp_path / "a.gguf", given, tensors_of(model_of()), architecture)
    with pytest.raises(UserError, match=message):
        read_gguf(path)


def test_tensors_that_are_refused(tmp_path):
    tensors = tensors_of(model_of())
    for name, values, message in (
        ("rope_freqs.weight", np.ones(4, np.float32), "rope_freqs.weight has no place in a llama model"),
        ("output_norm.weight", np.full(32, np.nan, np.float32), "output_norm.weight has NaN or infinity"),
        ("output_norm.weight", np.ones(32, np.int32), "output_norm.weight is of type 26, which is not read"),
        ("blk.0.ffn_up.weight", np.ones((64, 31), np.float32), r"is of \(64, 31\), not of \(64, 32\)"),
    ):
        path = written(tmp_path / "a.gguf", LLAMA, tensors | {name: values})
        with pytest.raises(UserError, match=message):
            read_gguf(path)


def test_a_file_cut_short_is_refused_wherever_it_ends(tmp_path):
    path = written(tmp_path / "a.gguf", LLAMA, tensors_of(model_of()))
    whole = path.read_bytes()
    for length in (3, 11, 23, 60, 500, 2000, len(whole) - 1000):
        path.write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"a\.gguf is cut short"):
            read_gguf(path)
    path.write_bytes(b"")
    with pytest.raises(UserError, match="is empty"):
        read_gguf(path)
    with pytest.raises(UserError, match="is missing"):
        read_gguf(tmp_path / "b.gguf")


def header(*entries, version=3, tensors=0, magic=b"GGUF"):
    return magic + struct.pack("<IQQ", version, tensors, len(entries)) + b"".join(entries)


def entry(kind, value, key=b"key"):
    return struct.pack("<Q", len(key)) + key + struct.pack("<I", kind) + value


def tensor(name, dimensions, kind, shape=(32,)):
    sizes = struct.pack(f"<I{len(shape)}Q", dimensions, *shape)
    return struct.pack("<Q", len(name)) + name + sizes + struct.pack("<IQ", kind, 0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (header(magic=b"PK\3\4"), r"begins with b'PK.*it is no GGUF file"),
        (header(version=1), "is GGUF of version 0x1"),
        (header(version=3 << 24), "is GGUF of version 0x3000000; read are 2 and 3, with their low byte first"),
        (header(entry(13, b"")), "key of type 13, which is not one of GGUF's"),
        (header(entry(9, struct.pack("<IQ", 9, 1))), "an array of type 9"),
        (header(entry(9, struct.pack("<IQ", 4, 1 << 60))), "is cut short"),
        (header(entry(9, struct.pack("<IQ", 8, 1 << 60))), "is cut short"),
        (header(entry(8, struct.pack("<Q", 1) + b"\xff")), "that is not UTF-8"),
        (header(entry(7, b"\1"), entry(7, b"\1")), "metadata key twice"),
        (header(entry(4, struct.pack("<I", 3), b"general.alignment")), "alignment = 3, which is no power of two"),
        (header(tensors=1) + tensor(b"one", 5, 0), "tensor one has 5 dimensions"),
        (header(tensors=2) + tensor(b"one", 1, 0) * 2, "a tensor one twice"),
        (header(tensors=1) + tensor(b"one", 2, 0, (32, 0)), r"tensor one is of \(0, 32\), and has no values"),
    ],
)
def test_damaged_headers_are_refused(tmp_path, content, message):
    (tmp_path / "a.gguf").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_gguf(tmp_path / "a.gguf")


def test_an_unknown_type_of_blocks_is_refused(tmp_path):
    path = written(tmp_path / "a.gguf", LLAMA, tensors_of(model_of()))
    whole = path.read_bytes()
    at = whole.index(b"output_norm.weight") + len(b"output_norm.weight")
    dimensions = struct.unpack_from("<I", whole, at)[0]
    place = at + 4 + 8 * dimensions
    path.write_bytes(whole[:place] + struct.pack("<I", 99) + whole[place + 4 :])
    with pytest.raises(UserError, match=r"tensor output_norm\.weight is of type 99, which is not read"):
        read_gguf(path)
