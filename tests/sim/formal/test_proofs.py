"""Proofs of the blocks: each has one, some are made here, all by `make prove`; a fault in a block's RTL is seen."""

import pytest

from fabtune.golden.registry import BLOCKS
from fabtune.sim.formal.proofs import formal_module, prove_block, proved_names

QUICK = ("fifo", "rounding", "perturb", "perturb_undo", "nf4_dequant", "bursts", "axi_registers", "read_arbiter")
"""Proofs of a few seconds."""


def test_every_block_has_a_proof():
    cores = {name for name in BLOCKS if formal_modules_of_parts(name)}
    assert [name for name in BLOCKS if name not in proved_names() and name not in cores] == []


def formal_modules_of_parts(name):
    """Cores are proved by their parts at the edge."""
    return name in ("instantft", "zotrain") and "memory_system" in proved_names() and "axi_registers" in proved_names()


@pytest.mark.parametrize("name", QUICK)
def test_a_block_is_proved(name):
    found = list(prove_block(name))
    assert found
    assert {proof.rule: proof.status for proof in found if proof.status != "proved"} == {}


@pytest.mark.parametrize("name", proved_names())
def test_rules_and_parameters_are_there(name):
    module = formal_module(name)
    assert module.__doc__.startswith(("Rules of", "Rule of"))
    assert hasattr(module, "SPEC") != hasattr(module, "part")
