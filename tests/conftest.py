"""Settings of all tests: one thread, few garbage collections, all installed simulators.

Compiled simulators and estimates are cached by content between runs, as for users (`golden.cache`).
"""

import gc
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from fabtune.sim.simulator import SIMULATORS, find

settings.register_profile("fabtune", derandomize=True, deadline=None)
settings.load_profile("fabtune")
torch.set_num_threads(1)  # tensors are small, and tests run in parallel
# libraries keep half a million objects: collecting after every 700 new ones takes a tenth of the time
gc.set_threshold(20_000)

LONGEST = (
    *(
        "sim/test_blocks",
        "scripts/test_demo",
        "test_types",
        "boards/cores/instantft/test_job",
        "hw/test_verilog",
        "sim/test_mutation",
    ),
    *("boards/testbench/test_benches", "boards/testbench/test_page"),
    "boards/cores/zotrain/test_job_on_core",
    *("scripts/blocks/test_emit", "scripts/test_table", "scripts/tuning/test_tune"),
    *("sim/compiled/test_session", "scripts/tuning/test_zeroth", "scripts/test_cli"),
)
"""Files of half a minute and more, run first: a late start would leave the other worker idle.

`sim/cores` uses the builds of `boards/cores`, and would wait for them if both started together.
"""


def pytest_collection_modifyitems(items):
    """`LONGEST` first; the others keep their order."""
    places = {Path(__file__).parent / f"{name}.py": place for place, name in enumerate(LONGEST)}
    assert all(path.exists() for path in places), "a file of `LONGEST` has moved"
    items.sort(key=lambda item: places.get(item.path, len(LONGEST)))


@pytest.fixture(params=SIMULATORS)
def simulator(request):
    """Each simulator in turn, skipped by name if not installed."""
    if not find(request.param):
        pytest.skip(f"{request.param} is not installed")
    return request.param


@pytest.fixture
def fast_simulator():
    """The simulator with the faster build: Icarus if installed."""
    return "icarus" if find("icarus") else "verilator"


class Logits(torch.nn.Module):
    """Only the logits of a classifier with several outputs."""

    def __init__(self, classifier):
        super().__init__()
        self.classifier = classifier

    def forward(self, x):
        return self.classifier(x).logits


@pytest.fixture
def logits_of():
    """Function that wraps a published classifier to return logits only, in evaluation mode."""
    return lambda classifier: Logits(classifier).eval()


@pytest.fixture(scope="session")
def nf4_operators():
    """Operators `quantize_4bit` and `dequantize_4bit` of bitsandbytes in plain PyTorch, whatever else is installed.

    Same arguments as ``torch.ops.bitsandbytes``. Nothing is compiled: loading the compiler takes seconds.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "compile", lambda function=None, **_: function or (lambda one: one))
        pytest.importorskip("bitsandbytes")
    default = torch._C.DispatchKeySet(torch._C.DispatchKey.CompositeExplicitAutograd)

    def operator(name):
        return lambda *given: getattr(torch.ops.bitsandbytes, name).default.redispatch(default, *given)

    return operator("quantize_4bit"), operator("dequantize_4bit")


@pytest.fixture(scope="session")
def tiny_transformer(tmp_path_factory):
    """Folder of a two-layer transformer with a vocabulary of a few words, as saved by transformers."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = ["it", "was", "good", "bad", "fine", "poor", "film", "plot", "cast", "score", "a", "the", "very", ","]
    path = tmp_path_factory.mktemp("tiny")
    vocabulary = {word: at for at, word in enumerate(["[PAD]", "[UNK]", *words])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(path)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    BertModel(BertConfig(vocab_size=len(vocabulary), max_position_embeddings=140, **sizes)).save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def tiny_decoder(tmp_path_factory):
    """Folder of a two-layer decoder with a separate head; tokens are words with a leading blank."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    path = tmp_path_factory.mktemp("decoder")
    words = ["<s>", "<unk>", "film", "plot", "It", "good", "bad", "the", "very", ",", ".", "film", "was", "It", "great"]
    pieces = [word if at < 10 else f" {word}" for at, word in enumerate(words)]
    pieces += [" bad", " good", " the", " very", " fine", " poor", " ,"]
    vocabulary = {piece: at for at, piece in enumerate(pieces)}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r" ?[^\s.,]+| ?[.,]"), "isolated")
    made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", unk_token="<unk>").save_pretrained(path)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    LlamaForCausalLM(LlamaConfig(vocab_size=len(pieces), **sizes)).save_pretrained(path)
    return path
