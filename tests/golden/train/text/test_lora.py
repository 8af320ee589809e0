"""LoRA on the library's models: starts as the model, trains adapters only, count given by shapes."""

import pytest
import torch
from torch import nn

from fabtune.golden.errors import UserError
from fabtune.golden.train.text.lora import add_lora, lora_parameters
from fabtune.golden.train.text.sentence_model import sentence_model


def test_adapters_begin_as_nothing_and_are_all_that_learns(classifier, task, tiny_transformer):
    batch = classifier.batch(task.tune)
    before = {name: one.clone() for name, one in classifier.state_dict().items()}
    loss = float(classifier.loss(batch).detach())
    add_lora(classifier)
    assert float(classifier.loss(batch).detach()) == pytest.approx(loss, rel=1e-6)
    trained = {name: one for name, one in classifier.named_parameters() if one.requires_grad}
    assert len(trained) == 2 * 2 * 2
    expected = lora_parameters(sentence_model(tiny_transformer, task.prompts).network)
    assert sum(one.numel() for one in trained.values()) == expected == 2 * 2 * 4 * (16 + 16)
    optimiser = torch.optim.AdamW(trained.values(), lr=0.01)
    for _ in range(10):
        optimiser.zero_grad()
        torch.autograd.backward(classifier.loss(batch))
        optimiser.step()
    assert float(classifier.loss(batch).detach()) < loss - 0.02
    after = {name.replace(".layer.weight", ".weight"): one for name, one in classifier.state_dict().items()}
    assert all(
        torch.equal(after.get(name, after.get(name.replace("bias", "layer.bias"))), before[name]) for name in before
    )


def test_a_model_without_such_layers_is_refused():
    with pytest.raises(UserError, match=r"queries and values by name \(q_lin, q_proj, query, v_lin, v_proj, value\)"):
        add_lora(nn.Sequential(nn.Linear(2, 2)))
