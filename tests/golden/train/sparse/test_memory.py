"""Computed memory compared with the memory of tensors, and with the paper's figures."""

import pytest
import torch
from torch import nn

from fabtune.golden.errors import UserError
from fabtune.golden.train.sparse import random_mask, sparsify
from fabtune.golden.train.sparse.memory import Footprint, Inventory, footprint, llama2_7b, measured, rows


class Llama(nn.Module):
    """Llama's parameters, without its computation."""

    def __init__(self, width, inner, words, depth):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(self.layer(width, inner) for _ in range(depth))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    @staticmethod
    def layer(width, inner):
        shapes = {"q": (width, width), "k": (width, width), "v": (width, width), "o": (width, width)}
        shapes |= {"gate": (width, inner), "up": (width, inner), "down": (inner, width)}
        layer = nn.ModuleDict({name: nn.Linear(*shape, bias=False) for name, shape in shapes.items()})
        layer["norm1"], layer["norm2"] = nn.RMSNorm(width), nn.RMSNorm(width)
        return layer


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("fraction", [0.001, 0.05])
def test_measured_memory_is_the_computed_one(fraction, bias):
    module = nn.Sequential(
        nn.Embedding(50, 24), nn.Linear(24, 33, bias), nn.LayerNorm(33), nn.Linear(33, 7, bias)
    ).half()
    inventory = Inventory.of(module)
    assert inventory.parameters == sum(one.numel() for one in module.parameters())
    sparsify(module, random_mask(module, fraction))
    assert measured(module) == footprint(inventory, fraction, value_bytes=4)
    assert measured(module).total == sum(one.numel() * one.element_size() for one in module.state_dict().values())


def test_by_hand():
    # 130 weights are three blocks of 36 bytes; 1 weight is sensitive
    assert footprint(Inventory({"a": 130}, 10), 0.01) == Footprint(codes=96, scales=12, values=2, indices=4, others=20)
    assert footprint(Inventory({"a": 130}, 10), 0.01, value_bytes=4, other_bytes=4).total == 96 + 12 + 4 + 4 + 40


def test_a_module_that_is_not_sparse():
    module = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4))
    # two counts of batches in int64
    assert measured(module) == Footprint(0, 0, 0, 0, others=4 * (32 + 4 + 16) + 8)


def test_unpacked_layers_show_what_they_cost():
    module = nn.Sequential(nn.Linear(64, 64))
    packed = measured(nn.Sequential(nn.Linear(64, 64))).total
    sparsify(module, random_mask(module), unpacked=True)
    assert measured(module).dense == 4 * 64 * 64
    assert measured(module).total > packed


def test_shared_tensors_count_once():
    module = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 16, bias=False))
    module[1].weight = module[0].weight
    assert Inventory.of(module) == Inventory({}, 128)
    assert measured(module).total == 4 * 128
    layer = nn.Linear(8, 8)
    module = nn.Sequential(layer, layer)
    sparsify(module, random_mask(module))
    assert measured(module).codes == 32


def test_llama2_7b_has_the_parameters_of_its_module():
    with torch.device("meta"):
        module = Llama(4096, 11008, 32000, 32)
    found, stated = Inventory.of(module), llama2_7b()
    assert stated.parameters == found.parameters == 6_738_415_616
    assert sorted(found.layers.values()) == sorted(stated.layers.values())
    assert found.others == stated.others


def test_the_papers_figures_are_gigabytes_of_bare_codes():
    table = {row["what"]: row for row in rows()}
    before, after = table["every parameter in 16 bits"], table["every parameter in 4 bits"]
    assert (before["paper"], round(before["GB"], 1), round(before["GiB"], 1)) == ("13.5 GiB", 13.5, 12.6)
    assert (after["paper"], round(after["GB"], 1), round(after["GiB"], 1)) == ("3.4 GiB", 3.4, 3.1)
    # including the parts omitted by the figures
    assert table["all parts, as they are sent"]["bytes"] == 4_018_799_936
    assert table["all parts, as they are sent"]["GiB"] == 3.743
    parts = list(table.values())[2:7]
    assert sum(row["bytes"] for row in parts) == table["all parts, as they are sent"]["bytes"]


def test_a_model_of_ones_own_has_no_figures_of_the_papers():
    table = rows(Inventory({"a": 6400}, 11), 0.01)
    assert {row["paper"] for row in table} == {""}
    assert [row["bytes"] for row in table] == [12822, 3206, 3200, 400, 128, 256, 22, 4006, 4134]


def test_a_wrong_fraction_is_refused():
    with pytest.raises(UserError, match="fraction = 0 "):
        footprint(llama2_7b(), 0)
