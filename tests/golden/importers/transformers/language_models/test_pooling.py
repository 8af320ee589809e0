"""Pooling of sentence-transformers folders, compared with the library, and refusals."""

import json
import shutil

import numpy as np
import pytest
import torch

from fabtune.golden.errors import UserError
from fabtune.golden.importers.transformers.language_models.folder import pooling_of
from fabtune.golden.train.text.classifier import LOGIT_SCALE, TextClassifier
from fabtune.golden.train.text.sentence_model import sentence_model
from fabtune.golden.transformer.float_model import run_float

PROMPTS = ("it was bad", "it was very good , a film")
SENTENCES = ["the film was very good", "a plot", "bad"]
PARTS = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]


def written(folder, pooling, parts=PARTS):
    """Module list and pooling settings of a folder."""
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 16, **pooling}))
    listed = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (path, kind) in enumerate(parts)
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    return folder


@pytest.fixture
def folder(tmp_path, tiny_transformer):
    return shutil.copytree(tiny_transformer, tmp_path / "model")


def logits(model):
    """Logits of the normal form in float64."""
    tokens = model.tokens(SENTENCES)
    there = tokens >= 0
    return run_float(model.network, model.parameters, model.words[tokens[there]], tuple(there.sum(axis=1)))[-1]


@pytest.mark.parametrize(
    ("settings", "rows"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, lambda rows: rows[0]),
        ({"pooling_mode": "cls"}, lambda rows: rows[0]),
        ({"pooling_mode_lasttoken": True}, lambda rows: rows[-1]),
        ({"pooling_mode": ["lasttoken"]}, lambda rows: rows[-1]),
        ({"pooling_mode_mean_tokens": True}, lambda rows: rows.mean(0)),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, lambda rows: rows.mean(0)),
        ({}, lambda rows: rows.mean(0)),
    ],
)
def test_both_engines_pool_as_the_folder_says(folder, settings, rows):
    written(folder, settings)
    classifier = TextClassifier(folder, PROMPTS)
    with torch.no_grad():
        encoded = [classifier.encoder(**classifier.tokens([one])).last_hidden_state[0] for one in SENTENCES]
        expected = torch.stack([torch.nn.functional.normalize(rows(one), dim=0) for one in encoded])
        torch.testing.assert_close(classifier.embed(classifier.tokens(SENTENCES)), expected, atol=1e-5, rtol=1e-5)
        head = classifier.head.weight.numpy()
    np.testing.assert_allclose(logits(sentence_model(folder, PROMPTS)), expected.numpy() @ head.T, atol=1e-4)


@pytest.mark.slow  # importing the library takes seconds
@pytest.mark.parametrize("mode", ["cls", "lasttoken", "mean", "mean_sqrt_len_tokens"])
def test_embeddings_are_those_of_sentence_transformers(folder, mode):
    library = pytest.importorskip("sentence_transformers")
    written(folder, {"pooling_mode": mode})
    model = library.SentenceTransformer(str(folder), device="cpu")
    first, second = (torch.from_numpy(model.encode(list(texts))) for texts in (SENTENCES, PROMPTS))
    found = logits(sentence_model(folder, PROMPTS))
    np.testing.assert_allclose(found, LOGIT_SCALE * first @ second.T, atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "parts", "message"),
    [
        ({"pooling_mode_max_tokens": True}, PARTS, "has the pooling max; computed are cls, mean"),
        ({"pooling_mode": "weightedmean"}, PARTS, "has the pooling weightedmean"),
        ({"pooling_mode": ["cls", "mean"]}, PARTS, "has the pooling cls and mean; .* one of them"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, PARTS, "has the pooling cls and mean"),
        ({"pooling_mode_cls_token": "yes"}, PARTS, "pooling_mode_cls_token = 'yes', which is not true or false"),
        ({"pooling_mode": 3}, PARTS, "pooling_mode = 3, which is neither a text nor a list"),
        ({}, [*PARTS, ("3_Dense", "Dense")], "has a module of the type 'Dense'; computed are Transformer, Pooling"),
        ({}, PARTS[:1], "has 0 modules of the type Pooling"),
    ],
)
def test_poolings_that_are_refused(folder, settings, parts, message):
    written(folder, settings, parts)
    with pytest.raises(UserError, match=message):
        pooling_of(folder)
    with pytest.raises(UserError, match=message):
        TextClassifier(folder, PROMPTS)


def test_a_list_of_modules_that_is_none(folder):
    (folder / "modules.json").write_text('{"a": 1}')
    with pytest.raises(UserError, match=r"modules\.json is no list of modules"):
        pooling_of(folder)


def test_a_pooling_without_a_list_of_modules_is_read(folder):
    assert pooling_of(folder) == "mean"
    written(folder, {"pooling_mode": "cls"})
    (folder / "modules.json").unlink()
    assert pooling_of(folder) == "first"
