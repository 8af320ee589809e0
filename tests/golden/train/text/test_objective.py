"""Zeroth-order fine-tuning of a transformer."""

import numpy as np
import pytest
import torch

from fabtune.golden.errors import UserError
from fabtune.golden.train.sparse import squared_gradients
from fabtune.golden.train.text.objective import TextObjective
from fabtune.golden.train.zo.finetune import FineTuning, ZoSettings, fine_tune
from fabtune.golden.train.zo.schedule import Schedule


@pytest.fixture
def generic(tmp_path):
    rng = np.random.default_rng(0)
    words = np.array(["film", "plot", "cast", "score", "good", "bad", "very"])
    path = tmp_path / "generic.txt"
    path.write_text("\n\n".join(" ".join(rng.choice(words, 5 + at % 20)) for at in range(60)))
    return path


@pytest.mark.parametrize(
    ("method", "parameters"),
    # a pool with fewer numbers per cycle than lanes makes weights of a row share numbers: docs/zo.md
    [
        pytest.param("mezo", (), marks=pytest.mark.slow),
        ("pezo-pool", ("pool.size=4064", "pool.p=32")),
        pytest.param("pezo-otf", (), marks=pytest.mark.slow),
    ],
)
def test_a_transformer_learns(classifier, task, method, parameters):
    settings = ZoSettings(method, 3e-4, schedule=Schedule(200, 16), parameters=parameters)
    result = fine_tune(TextObjective(classifier, task), settings)
    assert result.loss_last < 0.6 * result.loss_first
    assert len(result.losses) == 200


def test_a_step_sees_the_same_sentences_twice(classifier, task):
    closure = TextObjective(classifier, task).closure_of(np.array([3, 1]))
    with torch.no_grad():
        assert closure() == closure()
        assert closure() == classifier.loss(classifier.batch(task.tune[np.array([3, 1])]))


def test_generic_text_and_the_task_select_different_weights(classifier, task, generic):
    objective = TextObjective(classifier, task, generic)
    scores = [squared_gradients(classifier, objective.losses(kind)) for kind in ("generic", "task")]
    assert scores[0]["encoder.encoder.layer.0.attention.self.query"].any()
    assert not scores[0]["head"].any()  # the embedding loss does not use the head
    assert scores[1]["head"].any()


def test_the_sparse_method_tunes_a_few(classifier, task, generic):
    objective = TextObjective(classifier, task, generic)
    result = fine_tune(objective, ZoSettings("sparse-zo", 1e-3, schedule=Schedule(5, 16), fraction=0.01))
    assert 12 < result.trained_parameters < 80
    assert all(name.endswith(("values", "indices")) for name in result.tensors)


def test_the_choice_of_sensitive_weights_tells_how_far_it_is(classifier, task):
    told = []
    FineTuning(
        TextObjective(classifier, task),
        ZoSettings("sparse-zo", mask="task", fraction=0.01),
        lambda done, total: told.append((done, total)),
    )
    assert told == [(done, len(task.tune)) for done in range(1, len(task.tune) + 1)]


def test_missing_generic_text_is_refused(classifier, task, tmp_path):
    with pytest.raises(UserError, match="needs generic text"):
        TextObjective(classifier, task).losses("generic")
    with pytest.raises(UserError, match="is missing"):
        TextObjective(classifier, task, tmp_path / "gone").losses("generic")
    (tmp_path / "short").write_text("too few words")
    with pytest.raises(UserError, match="0 passages of 12 words"):
        TextObjective(classifier, task, tmp_path / "short").losses("generic")
