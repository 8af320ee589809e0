"""Folders of the library `transformers` against the library itself, in float64, and what is refused."""

import json

import numpy as np
import pytest
import torch

from fabtune.golden.errors import UserError
from fabtune.golden.transformer.float_model import run_float
from fabtune.golden.transformer.importers.language_models.folder import read_folder

transformers = pytest.importorskip("transformers")

COMMON = {"vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
SHORT = {"max_position_embeddings": 20, "intermediate_size": 40}
MODELS = {
    "bert": ("BertModel", "BertConfig", {**COMMON, **SHORT}),
    "bert for masks": ("BertForMaskedLM", "BertConfig", {**COMMON, **SHORT, "hidden_act": "gelu_new"}),
    "roberta": ("RobertaModel", "RobertaConfig", {**COMMON, **SHORT}),
    "distilbert": (
        "DistilBertModel",
        "DistilBertConfig",
        {"vocab_size": 50, "dim": 24, "n_layers": 2, "n_heads": 4, "hidden_dim": 40, "max_position_embeddings": 20},
    ),
    "opt": (
        "OPTForCausalLM",
        "OPTConfig",
        {**COMMON, "ffn_dim": 40, "word_embed_proj_dim": 24, "max_position_embeddings": 20},
    ),
    "llama": ("LlamaForCausalLM", "LlamaConfig", {**COMMON, **SHORT, "num_key_value_heads": 2, "head_dim": 8}),
    "tied llama": ("LlamaForCausalLM", "LlamaConfig", {**COMMON, **SHORT, "tie_word_embeddings": True}),
    "llama of biases": ("LlamaModel", "LlamaConfig", {**COMMON, **SHORT, "attention_bias": True, "mlp_bias": True}),
    "llama of another base": (
        "LlamaModel",
        "LlamaConfig",
        {**COMMON, **SHORT, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
    ),
    "qwen2": ("Qwen2Model", "Qwen2Config", {**COMMON, **SHORT, "num_key_value_heads": 1, "use_sliding_window": False}),
}
TOKENS = ([5, 6, 7, 8, 9], [11], [12, 13, 14])


def saved(folder, kind, dtype=torch.float32, shard=None, **changes):
    """A model of random weights in a folder."""
    model_class, config_class, settings = MODELS[kind]
    torch.manual_seed(3)
    model = getattr(transformers, model_class)(getattr(transformers, config_class)(**{**settings, **changes}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn_like(parameter) * 0.2  # biases and factors, too
    model = model.eval().to(dtype)
    model.save_pretrained(folder, **({"max_shard_size": shard} if shard else {}))
    return model


def changed(folder, **settings):
    """Settings of a folder, some of them other ones."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def hidden(folder):
    """Last hidden states of the sentences by the normal form."""
    found = read_folder(folder)
    network, parameters = found.builder.finish()
    rows = np.concatenate([found.rows(np.array(one)) for one in TOKENS])
    lengths = tuple(len(one) for one in TOKENS)
    assert found.last == len(network.operations) - 1
    return run_float(network, parameters, rows, lengths)[-1], found


def expected(model):
    model = model.double()
    body = model.base_model if hasattr(model, "base_model") else model
    with torch.no_grad():
        return np.concatenate([body(torch.tensor([one])).last_hidden_state[0].numpy() for one in TOKENS])


@pytest.mark.parametrize("kind", MODELS)
def test_hidden_states_are_the_library_s(tmp_path, kind):
    model = saved(tmp_path, kind)
    found, imported = hidden(tmp_path)
    np.testing.assert_allclose(found, expected(model), rtol=1e-6, atol=1e-6)
    assert imported.converted == ()
    names = {name for name, _ in model.named_parameters()}
    assert set(imported.tensor_names.values()) <= names
    assert set(imported.unused) <= names


@pytest.mark.parametrize("kind", ["llama", "tied llama", "opt"])
def test_heads_give_the_library_s_logits(tmp_path, kind):
    model = saved(tmp_path, kind).double()
    found, imported = hidden(tmp_path)
    with torch.no_grad():
        wanted = np.concatenate([model(torch.tensor([one])).logits[0].numpy() for one in TOKENS])
    np.testing.assert_allclose(found @ imported.head.astype(np.float64).T, wanted, rtol=1e-6, atol=1e-6)
    assert (imported.head is imported.words) is (kind != "llama")
    assert "lm_head.weight" not in imported.unused


def test_models_without_a_head_of_words(tmp_path):
    for kind in ("bert for masks", "qwen2"):
        saved(tmp_path / kind, kind)
        assert hidden(tmp_path / kind)[1].head is None


def test_a_tied_head_that_is_another_one_is_refused(tmp_path):
    saved(tmp_path, "llama")
    changed(tmp_path, tie_word_embeddings=True)
    with pytest.raises(UserError, match=r"a lm_head\.weight that is not the embeddings"):
        read_folder(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_shorter_floats_are_converted_and_said_so(tmp_path, dtype):
    saved(tmp_path, "llama", dtype)
    # loaded anew, as the rotary wavelengths of the one that was saved are short, too
    model = transformers.LlamaModel.from_pretrained(tmp_path, dtype=torch.float32).eval()
    found, imported = hidden(tmp_path)
    np.testing.assert_allclose(found, expected(model), rtol=1e-6, atol=1e-6)
    assert imported.converted == (str(dtype).removeprefix("torch."),)


def test_shards_are_one_model(tmp_path):
    model = saved(tmp_path, "bert", shard="10KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    np.testing.assert_allclose(hidden(tmp_path)[0], expected(model), rtol=1e-6, atol=1e-6)
    next(iter(sorted(tmp_path.glob("*.safetensors")))).unlink()
    with pytest.raises(UserError, match="which is not in the folder"):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("bert", {"model_type": "gpt_neox"}, "model_type = 'gpt_neox'; read are bert"),
        ("bert", {"position_embedding_type": "relative_key"}, "positions of type 'relative_key'"),
        ("bert", {"is_decoder": True}, "is_decoder"),
        ("bert", {"hidden_act": "mish"}, "hidden_act = 'mish'; computed are gelu"),
        ("bert", {"num_attention_heads": 5}, "5 heads, which do not divide 24 features"),
        ("bert", {"num_hidden_layers": 1}, "tensor encoder.layer.1.* has no place in a bert model"),
        ("bert", {"num_hidden_layers": 3}, "has no tensor encoder.layer.2.attention.self.query.weight"),
        ("bert", {"num_hidden_layers": 0}, "num_hidden_layers = 0, which is no number of at least 1"),
        ("bert", {"intermediate_size": 41}, r"is of \(40, 24\), not of \(41, 24\)"),
        ("opt", {"do_layer_norm_before": False}, "norms behind the sums"),
        ("opt", {"word_embed_proj_dim": 12}, "word_embed_proj_dim = 12"),
        ("llama", {"num_key_value_heads": 3}, r"not of \(24, 24\)"),
        ("llama", {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "rotary positions of type 'yarn'"),
        ("qwen2", {"sliding_window": 8, "use_sliding_window": True}, "sliding_window = 8"),
    ],
)
def test_settings_that_are_refused(tmp_path, kind, settings, message):
    saved(tmp_path, kind)
    changed(tmp_path, **settings)
    with pytest.raises(UserError, match=message):
        read_folder(tmp_path)


def test_folders_that_are_no_models(tmp_path):
    with pytest.raises(UserError, match=r"config\.json is missing: give the folder of a model"):
        read_folder(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert", "hidden_size": 24}')
    with pytest.raises(UserError, match=r"has no model\.safetensors"):
        read_folder(tmp_path)
    for text in ("[1", "[" * 100_000):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(UserError, match=r"config\.json is not JSON: .* give the folder"):
            read_folder(tmp_path)


def test_damaged_weights_are_refused(tmp_path):
    model = saved(tmp_path, "llama")
    path = tmp_path / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    with pytest.raises(UserError, match="is not a safetensors file, or is damaged"):
        read_folder(tmp_path)
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[3, 4] = torch.nan
    model.save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"model\.layers\.1\.mlp\.up_proj\.weight has NaN or infinity"):
        read_folder(tmp_path)


def test_tokens_of_another_vocabulary_are_refused(tmp_path):
    saved(tmp_path, "bert")
    with pytest.raises(UserError, match="tokens from 0 to 49, not 3 to 50"):
        read_folder(tmp_path).rows(np.array([3, 50]))
