"""A bench that passes on a wrong bit is a bug: every mutation of golden or of the RTL must be detected."""

import dataclasses
import importlib

import numpy as np
import pytest

from fabtune.golden.registry import BLOCKS, CORES
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.rng.pool import PoolSpec
from fabtune.golden.rng.scale import ScaleSpec
from fabtune.golden.rng.urng import UrngSpec
from fabtune.golden.settings import build
from fabtune.golden.zo.perturb import PerturbSpec
from fabtune.golden.zo.tile import TileSpec
from fabtune.golden.zo.weight_path import WeightPathSpec
from fabtune.hw.verilog import generate
from fabtune.sim import verify as verify_module
from fabtune.sim.scenario import scenario
from fabtune.sim.verify import verify, verify_phases

from ..small_cores import SMALLER

BASE = UrngSpec()
OTHER_SEED = (BASE.seeds[0] ^ 2, *BASE.seeds[1:])
PARAMETERS = [
    (BASE, {"taps": (8, 6, 5, 3)}),
    (BASE, {"seeds": OTHER_SEED}),
    (BASE, {"leap": 2}),
    (ScaleSpec(), {"urng": UrngSpec(seeds=OTHER_SEED)}),
    (ScaleSpec(), {"mode": "constant"}),
    (PoolSpec(), {"seed": 1}),
    (PerturbSpec(), {"rounding": "truncate"}),
    (PerturbSpec(), {"overflow": "wrap"}),
    (PerturbSpec(), {"eps_shift": 9}),
    pytest.param(PezoSpec(), {"scale": ScaleSpec(urng=UrngSpec(seeds=OTHER_SEED))}, marks=pytest.mark.slow),
    pytest.param(TileSpec(lanes=4), {"overflow": "wrap"}, marks=pytest.mark.slow),
    (build(BLOCKS["grng"]), {"form": "sum"}),
    pytest.param(WeightPathSpec(lanes=8), {"eps_shift": 9}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("spec", "change"), PARAMETERS, ids=lambda value: str(value)[:40])
def test_a_changed_parameter_of_the_rtl_is_seen(spec, change, fast_simulator):
    if isinstance(spec, UrngSpec) and "taps" in change:
        change = change | {"seeds": spec.seeds}
    verdict = verify(spec, fast_simulator, words=150, rtl=dataclasses.replace(spec, **change))
    assert verdict.mismatches > 0
    assert not verdict.passed
    assert verdict.differences


@pytest.mark.parametrize(("spec", "change"), PARAMETERS[:3] + PARAMETERS[6:7], ids=["tap", "seed", "leap", "rounding"])
def test_a_changed_parameter_of_golden_is_seen(spec, change, fast_simulator):
    if "taps" in change:
        change = change | {"seeds": spec.seeds}
    assert verify(dataclasses.replace(spec, **change), fast_simulator, words=150, rtl=spec).mismatches > 0


FAST = ("urng", "perturb", "nf4_quant", "sparse_add")
"""Blocks with different kinds of output; the slow tests have all."""


# whole cores have separate tests, with smaller networks
@pytest.mark.parametrize(
    "block",
    [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in BLOCKS if name not in CORES],
)
def test_one_flipped_bit_of_goldens_words_is_one_mismatch(block, fast_simulator):
    spec = build(BLOCKS[block], SMALLER.get(block, "").split())
    phases = scenario(spec, np.random.default_rng(0), 130)
    told = next(phase for phase in phases if phase.expected)
    # the first output for which the phase has words
    name, words = next(item for item in told.expected.items() if all(len(column) for column in item[1].values()))
    field, column = next(iter(words.items()))
    flipped = column.copy()
    word = min(123, len(flipped) - 1)
    flipped[word, -1] ^= 1
    told.expected[name][field] = flipped
    phases_with_it = sum(one.expected.get(name) is words for one in phases)
    verdict = verify_phases(spec, phases, fast_simulator)
    # at full speed, stalled, after resets in the middle; and for output streams with outputs held back
    tests = 3 + any(stream.direction == "out" for stream in spec.streams().values())
    assert verdict.mismatches == tests * phases_with_it
    assert f"{name}.{field}[{column.shape[1] - 1}] word {word}" in verdict.differences[0]


@pytest.mark.parametrize("generator", [0, 17])
def test_a_flipped_bit_in_the_verilog_is_seen(generator, fast_simulator, monkeypatch):
    seed = BASE.seeds[generator]
    old, new = f"8'h{seed:02x}", f"8'h{seed ^ 4:02x}"
    real = verify_module.emit

    def corrupted(spec):
        emitted = real(spec)
        assert old in emitted.verilog
        return dataclasses.replace(emitted, verilog=emitted.verilog.replace(old, new))

    monkeypatch.setattr(verify_module, "emit", corrupted)
    assert verify(BASE, fast_simulator, words=100).mismatches > 0


def test_a_word_too_few_is_a_mismatch(fast_simulator):
    phases = scenario(BASE, np.random.default_rng(0), 50)
    more = BASE.words_at(np.arange(51))
    phases[0].expected["o"]["number"] = more
    verdict = verify_phases(BASE, phases, fast_simulator)
    assert verdict.failures or verdict.mismatches


def test_a_wrong_latency_is_an_objection(fast_simulator):
    phases = scenario(BASE, np.random.default_rng(0), 50)
    phases[0] = dataclasses.replace(phases[0], cycles=51)
    verdict = verify_phases(BASE, phases, fast_simulator)
    assert any("51" in failure for failure in verdict.failures)
    assert not verdict.passed


@pytest.mark.parametrize("block", ["urng", "scale", "pool"])
def test_a_block_that_runs_on_in_a_gap_of_a_load_is_seen(block, fast_simulator, monkeypatch):
    module = importlib.import_module(f"fabtune.hw.rng.{block}")
    monkeypatch.setattr(module, "withheld", lambda m, load: load.valid)
    monkeypatch.setattr(verify_module, "emit", generate)  # what is cached is of the right block
    verdict = verify(build(BLOCKS[block]), fast_simulator, words=50)
    assert any("gave a word that nothing had asked for" in failure for failure in verdict.failures)


@pytest.mark.slow
def test_a_block_that_never_answers_is_an_objection_not_a_hang(fast_simulator, monkeypatch):
    real = verify_module.emit

    def mute(spec):
        emitted = real(spec)
        silent = emitted.verilog.replace("assign o_valid = ", "assign o_valid = 1'h0 & ")
        assert silent != emitted.verilog
        return dataclasses.replace(emitted, verilog=silent)

    monkeypatch.setattr(verify_module, "emit", mute)
    verdict = verify(BASE, fast_simulator, words=20)
    assert any("nothing moved" in failure for failure in verdict.failures)
    assert not verdict.passed
