"""Folders of `transformers` compared with the library in float64, and refusals."""

import json
import shutil
from dataclasses import fields

import numpy as np
import pytest
import torch

from fabtune.golden.errors import UserError
from fabtune.golden.importers.transformers.language_models.folder import read_folder
from fabtune.golden.importers.transformers.language_models.settings import FIELDS
from fabtune.golden.transformer.float_model import run_float

transformers = pytest.importorskip("transformers")

COMMON = {"vocab_size": 50, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
SHORT = {"max_position_embeddings": 20, "intermediate_size": 40}
MODELS = {
    "bert": ("BertModel", "BertConfig", {**COMMON, **SHORT}),
    "bert for masks": ("BertForMaskedLM", "BertConfig", {**COMMON, **SHORT, "hidden_act": "gelu_new"}),
    "roberta": ("RobertaModel", "RobertaConfig", {**COMMON, **SHORT}),
    "xlm-roberta": ("XLMRobertaModel", "XLMRobertaConfig", {**COMMON, **SHORT}),
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
    "mistral": ("MistralModel", "MistralConfig", {**COMMON, **SHORT, "num_key_value_heads": 2, "sliding_window": 5}),
    "qwen2": ("Qwen2Model", "Qwen2Config", {**COMMON, **SHORT, "num_key_value_heads": 1, "use_sliding_window": False}),
}
TOKENS = ([5, 6, 7, 8, 9], [11], [12, 13, 14])


def saved(folder, kind, dtype=torch.float32, shard=None, **changes):
    """A model with random weights, saved to a folder."""
    model_class, config_class, settings = MODELS[kind]
    torch.manual_seed(3)
    model = getattr(transformers, model_class)(getattr(transformers, config_class)(**{**settings, **changes}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn_like(parameter) * 0.2  # including biases and factors
    model = model.eval().to(dtype)
    model.save_pretrained(folder, **({"max_shard_size": shard} if shard else {}))
    return model


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """Function that copies a saved model of a kind, created once."""
    made = {}

    def copy(folder, kind):
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp("made")
            saved(made[kind], kind)
        shutil.copytree(made[kind], folder, dirs_exist_ok=True)

    return copy


def changed(folder, **settings):
    """A folder's settings, some changed."""
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
    # reloaded: the saved model's rotary wavelengths have low precision
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


def loaded(folder):
    """The folder's model loaded by the library, the reference of the import."""
    return transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        # rotary positions: the older field takes precedence, with its base beside it or by default
        ("llama", {"rope_scaling": {"type": "default"}, "rope_parameters": {"rope_theta": 77.0}}),
        ("llama", {"rope_scaling": {"rope_theta": 55.0}, "rope_parameters": {"rope_theta": 77.0}}),
        ("llama", {"rope_scaling": {"rope_type": "default"}, "rope_theta": 55}),
        ("llama", {"rope_scaling": {}, "rope_parameters": {"rope_type": "default", "rope_theta": 77.0}}),
        ("llama", {"rope_parameters": None, "rope_theta": 55.0}),
        ("llama", {"rope_parameters": {"rope_type": "default"}, "rope_theta": 55.0}),
        # windows at least as long as the longest text
        ("mistral", {"sliding_window": None}),
        ("mistral", {"sliding_window": 5, "use_sliding_window": False}),
        ("qwen2", {"sliding_window": 5, "use_sliding_window": True, "max_window_layers": 0, "layer_types": None}),
        ("qwen2", {"sliding_window": 3, "use_sliding_window": True, "layer_types": None}),
        ("qwen2", {"sliding_window": 3, "use_sliding_window": True, "max_window_layers": 0}),
        ("qwen2", {"sliding_window": 3, "use_sliding_window": False}),
        # alternative names, read last by the library
        ("distilbert", {"n_heads": 2, "num_attention_heads": 4}),
    ],
)
def test_settings_are_read_as_by_the_library(tmp_path, copied, kind, settings):
    copied(tmp_path, kind)
    changed(tmp_path, **settings)
    np.testing.assert_allclose(hidden(tmp_path)[0], expected(loaded(tmp_path)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "opt", "llama", "mistral", "qwen2", "xlm-roberta"])
def test_types_and_defaults_are_the_library_s(kind):
    config = transformers.AutoConfig.for_model(kind)
    declared = {one.name: one for one in fields(config)}
    kinds = {"count": int, "index": int, "eps": float, "flag": bool, "text": str, "texts": list, "object": dict}
    known = {name: field for name, field in FIELDS[kind].items() if name in declared}
    assert len(known) >= len(FIELDS[kind]) - 6  # others belong to earlier versions, or to one kind only
    for name, field in known.items():
        assert declared[name].default == field.default or name == "word_embed_proj_dim"
        annotation = declared[name].type
        assert kinds[field.kind].__name__ in str(annotation), name
        assert field.null is ("None" in str(annotation)) or name == "pad_token_id", name


@pytest.mark.parametrize("kind", ["bert", "distilbert", "opt", "llama"])
def test_settings_that_are_missing_have_the_library_s_defaults(tmp_path, copied, kind):
    copied(tmp_path, kind)
    path = tmp_path / "config.json"
    names = ("hidden_act", "activation", "activation_function", "layer_norm_eps", "rms_norm_eps", "rope_parameters")
    path.write_text(json.dumps({name: one for name, one in json.loads(path.read_text()).items() if name not in names}))
    np.testing.assert_allclose(hidden(tmp_path)[0], expected(loaded(tmp_path)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["mistral", "qwen2"])
def test_texts_beyond_a_window_are_refused(tmp_path, copied, kind):
    copied(tmp_path, kind)
    changed(tmp_path, sliding_window=4, use_sliding_window=True, max_window_layers=1, layer_types=None)
    with pytest.raises(UserError, match="takes sentences of 1 to 4 tokens, not of 5"):
        hidden(tmp_path)


@pytest.mark.parametrize("kind", ["roberta", "xlm-roberta"])
def test_padding_inside_a_text_is_refused_where_positions_leave_it_out(tmp_path, kind):
    saved(tmp_path, kind)
    with pytest.raises(UserError, match=r"a text has the token 1, padding, which .* leaves out when it counts"):
        read_folder(tmp_path).rows(np.array([5, 1, 6]))
    saved(tmp_path / "bert", "bert")
    assert read_folder(tmp_path / "bert").rows(np.array([5, 0, 6])).shape == (3, 24)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("bert", {"model_type": "gpt_neox"}, "model_type = 'gpt_neox'; read are bert"),
        ("bert", {"model_type": "gpt2", "hidden_size": None}, "model_type = 'gpt2'; read are bert"),
        ("bert", {"model_type": ["bert"]}, r"model_type = \['bert'\], which is not a text"),
        ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type = 'relative_key'"),
        ("bert", {"is_decoder": True}, "is_decoder"),
        ("bert", {"hidden_act": "mish"}, "hidden_act = 'mish'; computed are gelu"),
        ("bert", {"hidden_act": ["gelu"]}, r"hidden_act = \['gelu'\], which is not a text"),
        ("bert", {"layer_norm_eps": "1e-5"}, "layer_norm_eps = '1e-5', which is not a decimal number from 0"),
        ("bert", {"layer_norm_eps": None}, "layer_norm_eps = None, which is not a decimal number from 0"),
        ("bert", {"is_decoder": "no"}, "is_decoder = 'no', which is not true or false"),
        ("bert", {"num_attention_heads": 5}, "num_attention_heads = 5, heads which do not divide 24 features"),
        ("bert", {"num_hidden_layers": 1}, "tensor encoder.layer.1.* has no place in a bert model"),
        ("bert", {"num_hidden_layers": 3}, "has no tensor encoder.layer.2.attention.self.query.weight"),
        ("bert", {"num_hidden_layers": 0}, "num_hidden_layers = 0, which is not a whole number of at least 1"),
        ("bert", {"vocab_size": 49}, r"is of \(50, 24\), not of \(49, 24\)"),
        ("bert", {"intermediate_size": 41}, r"is of \(40, 24\), not of \(41, 24\)"),
        ("roberta", {"pad_token_id": None}, "pad_token_id = None, which is not a whole number of at least 0"),
        ("roberta", {"pad_token_id": 19}, "max_position_embeddings = 20: none of them comes behind the padding"),
        ("distilbert", {"n_layers": 2.0}, "n_layers = 2.0, which is not a whole number"),
        ("distilbert", {"num_hidden_layers": "2"}, "num_hidden_layers = '2', which is not a whole number"),
        ("opt", {"do_layer_norm_before": False}, "do_layer_norm_before = false: norms behind the sums"),
        ("opt", {"layer_norm_elementwise_affine": False}, "norms without factors are not computed"),
        ("opt", {"word_embed_proj_dim": 12}, "word_embed_proj_dim = 12"),
        ("opt", {"enable_bias": False}, "tensor .*bias has no place in a opt model with these settings"),
        ("llama", {"attention_bias": True}, "has no tensor model.layers.0.self_attn.q_proj.bias"),
        ("llama", {"num_key_value_heads": 3}, "num_key_value_heads = 3, which does not divide 4 heads"),
        ("llama", {"num_attention_heads": 10}, "num_attention_heads = 10, heads which do not divide 24 features"),
        ("llama", {"head_dim": 1}, "heads of 1 features: rotary positions turn pairs of them"),
        ("llama", {"head_dim": 7}, "heads of 7 features: rotary positions turn pairs of them"),
        ("llama", {"is_causal": False}, "is_causal = false: decoders here see no later token"),
        ("llama", {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "rope_parameters.rope_type = 'yarn'"),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling.rope_type = 'linear'"),
        ("llama", {"rope_scaling": ["linear"]}, r"rope_scaling = \['linear'\], which is not an object"),
        ("llama", {"rope_parameters": {"rope_theta": "1e4"}}, "rope_parameters.rope_theta = '1e4', which is not a num"),
        ("llama", {"rope_parameters": {"rope_theta": None}, "rope_theta": 5.0}, "rope_parameters.rope_theta = None"),
        ("llama", {"rope_theta": [1e4]}, r"rope_theta = \[10000.0\], which is not a number of at least 1"),
        ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5: rotary positions turn whole heads"),
        ("llama", {"rope_parameters": {"partial_rotary_factor": 0.25}}, "rope_parameters.partial_rotary_factor = 0.25"),
        ("qwen2", {"rope_parameters": {"full_attention": {"rope_theta": 9.0}}}, "full_attention: rotary positions by"),
        ("llama", {"per_layer_config": {"0": {"head_dim": 4}}}, "per_layer_config = .* layers with settings of their"),
        ("mistral", {"layer_types": ["sliding_attention"] * 2}, "layer_types = .*; read are 2 of full_attention"),
        ("mistral", {"sliding_window": 0}, "sliding_window = 0, which is not a whole number of at least 1"),
        ("qwen2", {"layer_types": ["full_attention"] * 3}, "layer_types = .*; read are 2 of full_attention"),
    ],
)
def test_settings_that_are_refused(tmp_path, copied, kind, settings, message):
    copied(tmp_path, kind)
    changed(tmp_path, **settings)
    with pytest.raises(UserError, match=message):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    ("quantised", "named"),
    [
        ({"quant_method": "gptq", "bits": 4}, r"quantization_config\.quant_method = 'gptq'"),
        ({"quant_method": "awq"}, r"quantization_config\.quant_method = 'awq'"),
        ({"load_in_8bit": True}, r"quantization_config = \{'load_in_8bit': True\}"),
    ],
)
def test_quantised_folders_are_refused_before_their_tensors(tmp_path, quantised, named):
    saved(tmp_path, "llama")
    changed(tmp_path, quantization_config=quantised)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(UserError, match=f"{named}: quantised weights of a folder are not read; save"):
        read_folder(tmp_path)


def test_an_adapter_beside_the_model_is_refused(tmp_path):
    saved(tmp_path, "llama")
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    with pytest.raises(UserError, match=r"adapter_config\.json makes this a model with an adapter.* merge it"):
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
    with pytest.raises(UserError, match=r"tokens from 0 to 49, not 50: .* resize the model \(resize_token_"):
        read_folder(tmp_path).rows(np.array([3, 50]))
