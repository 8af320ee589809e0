"""Random folders of `transformers`: tiny models with randomly changed settings and tensors."""

import json

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from fabtune.golden.importers.transformers.language_models.settings import FIELDS

CLASSES = {
    "bert": ("BertConfig", ("BertModel", "BertForMaskedLM")),
    "roberta": ("RobertaConfig", ("RobertaModel", "RobertaForMaskedLM")),
    "xlm-roberta": ("XLMRobertaConfig", ("XLMRobertaModel",)),
    "distilbert": ("DistilBertConfig", ("DistilBertModel", "DistilBertForMaskedLM")),
    "opt": ("OPTConfig", ("OPTModel", "OPTForCausalLM")),
    "llama": ("LlamaConfig", ("LlamaModel", "LlamaForCausalLM")),
    "mistral": ("MistralConfig", ("MistralModel", "MistralForCausalLM")),
    "qwen2": ("Qwen2Config", ("Qwen2Model", "Qwen2ForCausalLM")),
}
DECODERS = ("opt", "llama", "mistral", "qwen2")
ROTARY = ("llama", "mistral", "qwen2")
ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "relu2", "silu", "swish", "quick_gelu", "mish", "tanh")
WRONG = (None, "24", 24.0, [24], {"a": 1}, True, -1, 0, 7, "gelu", ["gelu"], 1e-5, "1e-5", float("nan"))
VALUES = {
    "count": (1, 2, 3, 4, 6, 8, 20, 24),
    "index": (0, 1, 2, 5, 30),
    "eps": (0.0, 1e-12, 1e-6, 1e-5, 0.1, 2.0),
    "base": (1, 100, 10_000, 500.0, 1e6, 0.5, 0, -3.0, float("inf")),
    "number": (1, 1.0, 0.5, 0.25),
    "flag": (True, False),
    "text": (*ACTIVATIONS, "absolute", "relative_key"),
    "texts": (["full_attention"], ["full_attention"] * 2, ["sliding_attention", "full_attention"], ["linear"] * 2),
    "object": ({}, {"a": 1}),
}
BESIDE = (
    {"quantization_config": {"quant_method": "gptq", "bits": 4}},
    {"quantization_config": None},
    {"quantization_config": {"load_in_8bit": True}},
    {"per_layer_config": {"0": {"num_attention_heads": 2}}},
    {"transformers_weights": "other.safetensors"},
    {"attention_chunk_size": 3},
    {"is_causal": False},
    {"unknown_setting": [1, 2]},
    {"torch_dtype": "float16"},
    {"chunk_size_feed_forward": 1},
    {"pruned_heads": {"0": [1]}},
    {"sliding_window": 3},
    {"use_sliding_window": False, "sliding_window": 3},
    {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1},
    {"layer_types": ["sliding_attention", "full_attention"]},
    {"num_attention_heads": 3},
    {"n_heads": 2},
    {"hidden_size": 48},
    {"model_type": "gpt2"},
    {"model_type": ["bert"]},
    {"tie_word_embeddings": True},
)
"""Additional settings; those of other model kinds have no effect."""
HUGE = ("hidden_size", "dim")
"""Settings whose defaults would allocate gigabytes."""


class RandomFolder:
    """Folder of a model, with tokenised sentences.

    Attributes
    ----------
    sentences : list of list of int
    """

    def __init__(self, folder, kind, seed, library):
        self.folder, self.kind, self.rng = folder, kind, np.random.default_rng([seed, [*CLASSES].index(kind)])
        torch.manual_seed(seed)
        config, models = CLASSES[kind]
        own = getattr(library, config)(**self._settings())
        model = getattr(library, self._one(models))(own)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += torch.randn_like(parameter) * 0.2
        model.save_pretrained(folder, **({"max_shard_size": "8KB"} if self._chance(0.1) else {}))
        for _ in range(self._one((0, 1, 1, 1, 2, 3))):
            self._change_settings()
        if self._chance(0.15):
            self._change_tensors()
        if self._chance(0.03):
            (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "base_model_name_or_path": "x"}')
        self.sentences = self._sentences()

    def _one(self, options):
        return options[int(self.rng.integers(len(options)))]

    def _chance(self, share):
        return self.rng.random() < share

    def _settings(self):
        """Settings of a model that the library creates and import reads."""
        heads, width = self._one((1, 2, 4)), self._one((2, 4, 6, 8))
        layers, wide, length = self._one((1, 2)), self._one((8, 20, 40)), self._one((12, 20))
        act = self._one(ACTIVATIONS[:7])
        common = {"vocab_size": 40, "pad_token_id": self._one((0, 1, 3))}
        if self.kind == "distilbert":
            sizes = {"dim": heads * width, "n_layers": layers, "n_heads": heads, "hidden_dim": wide}
            return {**common, **sizes, "activation": act, "max_position_embeddings": length}
        sizes = {"hidden_size": heads * width, "num_hidden_layers": layers, "num_attention_heads": heads}
        common |= {**sizes, "max_position_embeddings": length}
        if self.kind == "opt":
            return {**common, "ffn_dim": wide, "activation_function": act, "enable_bias": self._chance(0.7)}
        common |= {"intermediate_size": wide, "hidden_act": act}
        if self.kind not in ROTARY:
            eps = self._one((1e-12, 1e-6, 1e-5))
            return {**common, "type_vocab_size": self._one((1, 2, 4)), "layer_norm_eps": eps}
        common |= {"num_key_value_heads": self._one([one for one in (1, 2, 4) if heads % one == 0])}
        common |= {"rms_norm_eps": self._one((1e-6, 1e-5)), "tie_word_embeddings": self._chance(0.5)}
        common |= {"rope_parameters": {"rope_type": "default", "rope_theta": self._one((500.0, 1e4, 1e6))}}
        if self.kind == "llama":
            common |= {"attention_bias": self._chance(0.3), "mlp_bias": self._chance(0.3)}
        if self.kind == "mistral":
            common |= {"sliding_window": self._one((None, 5, 7, 64))}
        if self.kind == "qwen2":
            common |= {"use_sliding_window": self._chance(0.3), "sliding_window": 4, "max_window_layers": 1}
        return common | ({"head_dim": self._one((2, 4, 10))} if self._chance(0.3) else {})

    def _change_settings(self):
        path = self.folder / "config.json"
        settings = json.loads(path.read_text())
        fields = FIELDS[self.kind]
        name = self._one(sorted(fields))
        match self._one(("delete", "wrong", "other", "other", "beside", "rope" if self.kind in ROTARY else "other")):
            case "delete" if name not in HUGE:
                settings.pop(fields[name].alias, None)
                settings.pop(name, None)
            case "wrong":
                settings[self._one((name, fields[name].alias or name))] = self._one(WRONG)
            case "beside":
                settings |= self._one(BESIDE)
            case "rope":
                if self._chance(0.3):
                    settings.pop("rope_parameters", None)
                settings[self._one(("rope_parameters", "rope_scaling", "rope_scaling"))] = self._rope()
                if self._chance(0.4):
                    settings["rope_theta"] = self._one((*VALUES["base"], *WRONG))
            case _:
                settings[name] = self._one(VALUES[fields[name].kind])
        path.write_text(json.dumps(settings))

    def _rope(self):
        """Rotary positions of the default type, other types, and wrong types."""
        if self._chance(0.15):
            return self._one((None, {}, [], [1], "linear", 3, {"full_attention": {"rope_type": "default"}}))
        rope = {}
        if self._chance(0.7):
            kinds = ("default", "default", "default", "linear", "dynamic", "yarn", "llama3", "longrope", "x", None, 3)
            rope[self._one(("rope_type", "type"))] = self._one(kinds)
        if self._chance(0.7):
            rope["rope_theta"] = self._one((100.0, 500, 1e4, 1e4, 1e6, None, "1e4", [1e4], True, 0, -2.0))
        if self._chance(0.3):
            rope["factor"] = self._one((2.0, 1.0, "2"))
        if self._chance(0.2):
            rope["partial_rotary_factor"] = self._one((0.5, 1.0, 1, None, "0.5"))
        return rope

    def _change_tensors(self):
        path = self._one(sorted(self.folder.glob("*.safetensors")))
        tensors = load_file(path)
        name = self._one(sorted(tensors))
        match self._one(("drop", "add", "bias", "shape", "position_ids", "double")):
            case "drop":
                del tensors[name]
            case "add":
                tensors["extra.weight"] = torch.ones(3)
            case "bias" if name.endswith("weight"):
                tensors[name.replace("weight", "bias")] = torch.ones(len(tensors[name]))
            case "shape":
                tensors[name] = tensors[name][:-1].contiguous()
            case "position_ids":
                tensors["embeddings.position_ids"] = torch.arange(12)[None]
            case _:
                tensors[name] = tensors[name].double()
        save_file(tensors, path, metadata={"format": "pt"})

    def _sentences(self):
        """Short and longer sentences; some with padding inside, or a token after the last."""
        sentences = [self.rng.integers(4, 40, length).tolist() for length in (1, 3, self._one((4, 7)))]
        if self._chance(0.1):
            sentences[1][1] = self._one((0, 1, 3))
        if self._chance(0.05):
            sentences[2][-1] = 40
        return sentences
