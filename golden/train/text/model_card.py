"""Model card of a tuned folder: what was done, and six lines of `transformers` that classify a sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ...transformer.blocks import PoolKind, PoolTokens
from .sentence_model import SentenceModel

HEAD = "head.safetensors"
"""File with the head of prompts, beside the model."""
_ROWS: dict[PoolKind, str] = {"mean": "[0].mean(0)", "first": "[0, 0]", "last": "[0, -1]"}
_OF_PROMPTS = """\
from safetensors.torch import load_file
from torch.nn.functional import linear, normalize
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{folder}")
model, head = AutoModel.from_pretrained("{folder}"), load_file("{folder}/{head}")


def label_of(sentence):
    tokens = tokenizer(sentence, truncation=True, max_length={most}, return_tensors="pt")
    row = normalize(model(**tokens).last_hidden_state{row}, dim=0)
    return int(linear(row, head["weight"], head["bias"]).argmax())
"""
_OF_WORDS = """\
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{folder}")
model = AutoModelForCausalLM.from_pretrained("{folder}")
words = [tokenizer(word, add_special_tokens=False).input_ids[0] for word in {words}]


def label_of({arguments}):
    tokens = tokenizer({text}, return_tensors="pt")
    return int(model(input_ids=tokens.input_ids).logits[0, -1, words].argmax())
"""
_ORDER = ("method", "generator", "engine", "steps", "rate", "seed", "core", "data", "shots", "fabtune")
"""Facts of a run in the card, in this order."""


def recipe(sentences: SentenceModel, folder: str) -> str:
    """Python code that classifies a sentence with the model of a folder, without fabtune.

    The code does not shorten a text of label words.
    """
    if sentences.wording is None:
        pool = next(one for one in sentences.network.operations if isinstance(one, PoolTokens))
        return _OF_PROMPTS.format(folder=folder, head=HEAD, most=sentences.most_tokens, row=_ROWS[pool.kind])
    arguments = ("sentence", "second")[: 1 + sentences.wording.pairs]
    text, *words = (
        json.dumps(part, ensure_ascii=False) for part in (sentences.wording.template, *sentences.wording.words)
    )
    for number, argument in enumerate(arguments):
        text += f'.replace("{{{number}}}", {argument})'
    return _OF_WORDS.format(folder=folder, words=f"({', '.join(words)})", arguments=", ".join(arguments), text=text)


def model_card(sentences: SentenceModel, source: str, facts: Mapping[str, str]) -> str:
    """Text of ``README.md``.

    Parameters
    ----------
    sentences : SentenceModel
    source : str
        Name of the model before tuning.
    facts : mapping of str to str
        Metadata of the run.
    """
    rows = "".join(f"| {name} | {facts[name]} |\n" for name in _ORDER if name in facts)
    lines = [
        f"---\nlibrary_name: transformers\ntags: [fabtune]\nbase_model: {source}\n---\n",
        f"# {source}, tuned by fabtune\n",
        "Fine-tuned by zeroth order in the integers of a hardware core. The tensors have the values that the core "
        "multiplies:\nmatrices of 4 or 18 bits and the updates of the run, written as float32. Word embeddings are "
        "unchanged.\n",
    ]
    if rows:
        lines.append(f"| | |\n|---|---|\n{rows}")
    if "accuracy_after" in facts:
        before, after = (100 * float(facts[f"accuracy_{when}"]) for when in ("before", "after"))
        lines.append(f"{before:.1f} % of {facts['held_out']} held-out sentences right before, {after:.1f} % after.\n")
    if sentences.wording is None:
        what = f"The head is in `{HEAD}`, and began as the embeddings of a prompt for each class"
    else:
        what = "The next word is the label; only these rows of the head were tuned"
    classes = "".join(f"| {number} | `{text}` |\n" for number, text in enumerate(sentences.prompts))
    lines.append(f"{what}:\n\n| label | |\n|---|---|\n{classes}")
    lines.append(f"```python\n{recipe(sentences, '.')}```\n")
    return "\n".join(lines)
