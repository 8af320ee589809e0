"""Proofs of the blocks: each block has proofs, some run here, all by `make prove`; faults in the RTL are detected."""

import gc
import warnings

import pytest
from amaranth.hdl import Cat, UnusedElaboratable

from fabtune.golden.axi.register_map import RegisterMap
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Q4_12
from fabtune.golden.nf4.nf4_dequant import Nf4DequantSpec
from fabtune.golden.registry import BLOCKS
from fabtune.hw.axi.axi_registers import AxiRegisters
from fabtune.hw.lora.backward.backward_sequencer import BackwardSequencer
from fabtune.hw.primitives.pipeline import Pipeline
from fabtune.hw.zo.perturb import Perturb, _extended
from fabtune.sim.formal.checker import Checker
from fabtune.sim.formal.proofs import checker_of, formal_module, prove_block, prove_blocks, proved_names
from fabtune.sim.formal.prover import prove

QUICK = ("fifo", "rounding", "perturb", "perturb_undo", "bursts")
"""Proofs of a second or two; `fabtune prove` runs all."""


def test_every_block_has_a_proof():
    assert [name for name in BLOCKS if name not in proved_names()] == []


def test_a_block_without_rules_says_where_they_belong(monkeypatch):
    monkeypatch.setattr("fabtune.sim.formal.proofs._modules", lambda: iter(()))
    with pytest.raises(
        UserError, match=r"perturb has no rules yet: sim/zo/formal_perturb.py is to have them, see docs"
    ):
        formal_module("perturb")


@pytest.mark.parametrize("name", QUICK)
def test_a_block_is_proved(name):
    found = list(prove_block(name))
    assert found
    assert {proof.rule: proof.status for proof in found if proof.status != "proved"} == {}


@pytest.mark.slow
def test_blocks_side_by_side_are_proved_as_alone():
    names = ["rounding", "fifo"]
    found = [(name, proof.rule, proof.status) for name, proof in prove_blocks(names)]
    assert found == [(name, proof.rule, proof.status) for name in names for proof in prove_block(name)]


@pytest.mark.parametrize("name", proved_names())
def test_rules_and_parameters_are_there(name):
    module = formal_module(name)
    assert module.__doc__.startswith(("Rules of", "Rule of"))
    assert hasattr(module, "SPEC") != hasattr(module, "part")


def test_rules_find_what_they_are_about():
    """Rules that look into a block name its signals; a change of the block may lose a name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)  # nothing is proved here
        lost = {}
        for name in proved_names():
            try:
                checker_of(name)
            except (AttributeError, KeyError, ValueError) as error:
                lost[name] = error
        gc.collect()
    assert lost == {}


def broken(name):
    return {proof.rule for proof in prove_block(name) if proof.status == "broken"}


def test_a_carry_that_is_forgotten_is_seen(monkeypatch):
    def add(self, weight, step, up, minus, active):
        operand = Cat(*(active & (bit ^ minus) for bit in _extended(step, Q4_12.width + 1)))
        return _extended(weight, Q4_12.width + 1) + operand + (active & up)

    monkeypatch.setattr(Perturb, "_add", add)
    assert broken("perturb") == {"o_in_order"}
    assert broken("perturb_undo") == {"identity"}


def test_a_weight_that_wraps_is_seen(monkeypatch):
    monkeypatch.setattr(Perturb, "_fit", lambda self, total: total[: Q4_12.width])
    assert broken("perturb") == {"o_in_order"}


def test_a_soft_reset_that_leaves_a_register_is_seen(monkeypatch):
    clear = AxiRegisters._clear

    def all_but_settings(self, m):
        kept, self.map = self.map, RegisterMap("requests", self.map.accessed("W1S"))
        clear(self, m)
        self.map = kept

    monkeypatch.setattr(AxiRegisters, "_clear", all_but_settings)
    (proof,) = prove_block("shell", rules=("reset_state",))
    assert proof.status == "broken"


def test_rounding_that_never_goes_up_is_seen(monkeypatch):
    monkeypatch.setattr("fabtune.hw.primitives.rounding.Cat", lambda up, *others: Cat(up & ~up, *others))
    assert broken("rounding") >= {"o"}


@pytest.mark.slow
@pytest.mark.parametrize(("more", "rule"), [(-1, "o_words_lost"), (1, "o_words_made")])
def test_a_wrong_number_of_updates_is_seen(monkeypatch, more, rule):
    make = BackwardSequencer.__init__

    def initialise(self, *args):
        make(self, *args)
        self.entries += more

    monkeypatch.setattr(BackwardSequencer, "__init__", initialise)
    (proof,) = prove_block("adapter_updates", rules=(rule,))
    assert proof.status == "broken"


@pytest.mark.slow
def test_bounds_that_are_too_small_are_seen(monkeypatch):
    balance, passes = Checker.balance, Checker.passes

    def tighter(self, name, gains, spends, capacity, drained=0, also=1):
        return balance(self, name, gains, spends, capacity - 1, drained, also)

    monkeypatch.setattr(Checker, "balance", tighter)
    monkeypatch.setattr(Checker, "passes", lambda self, name, holds, cycles: passes(self, name, holds, cycles - 1))
    checker = checker_of("adapter")
    checker.lemmas.clear()  # they are proved, and hold until the rule breaks
    found = prove(checker, formal_module("adapter").CUT, ("forward_ends", "sums_end", "logits_words_lost"))
    assert [proof.status for proof in found] == ["broken"] * 3


@pytest.mark.slow
def test_a_sample_whose_last_logit_is_not_marked_is_seen(monkeypatch):
    place = Pipeline.place

    def unmarked(self, stage, value, name, **options):
        return place(self, stage, value & ~value if name == "logit_final" else value, name, **options)

    monkeypatch.setattr(Pipeline, "place", unmarked)
    checker = checker_of("adapter")
    checker.lemmas.clear()
    (proof,) = prove(checker, formal_module("adapter").CUT, ("lines_followed",))
    assert proof.status == "broken"


def test_fixed_parts_take_no_parameters():
    with pytest.raises(UserError, match="fifo is proved with fixed parameters"):
        checker_of("fifo", Nf4DequantSpec())
