"""All cores with random memory contents at power-up: no output depends on the contents."""

import pytest
from amaranth.hdl import Module

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.registry import BLOCKS
from fabtune.golden.settings import build
from fabtune.hw.lora.job.word_packers import CodePacker
from fabtune.hw.nn.memories.activation_clear import ActivationClear
from fabtune.hw.verilog import generate
from fabtune.sim import verify as verify_module
from fabtune.sim.compiled.build import build as compiled
from fabtune.sim.compiled.comparison import compiled_core, observable
from fabtune.sim.trials.jobs import short_jobs
from fabtune.sim.trials.power_up import power_up_findings, unloaded_findings
from fabtune.sim.verify import verify

from ...small_cores import OPTIONS, instantft, zostream, zotrain

AUTOENCODER = {"network": "40 fc6 relu fc40", "loss": "mse", "lanes": 16}
CORES = {
    "instantft": instantft,
    "zotrain": zotrain,
    "instantft, options": lambda: instantft(**OPTIONS),
    "instantft, two ports": lambda: instantft(ports=2),
    "instantft, cache on the chip": lambda: instantft(cache="chip"),
    "zotrain, narrow": lambda: zotrain(deltas="ultra"),
    "instantft, autoencoder": lambda: InstantftSpec(**AUTOENCODER, columns=4, rank=2, batch=4, cache_entries=64),
    "zotrain, autoencoder": lambda: ZotrainSpec(**AUTOENCODER, columns=2, byte_inputs=False),
    "zostream": zostream,
}
SLOW = [name for name in CORES if name not in ("instantft", "zotrain")]
"""Cores only for the slow tests; the others are already compiled for other trials."""
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in CORES]
CONV = build(BLOCKS["conv"], ["channels=1", "height=4", "width=4", "outputs=2", "pool=1", "lanes=16", "columns=2"])
"""Convolution that reads zeros around the map."""


@pytest.mark.parametrize("name", NAMES)
def test_nothing_depends_on_what_power_up_leaves(name):
    """Every job variation equals golden; every byte, register and cycle is equal for other power-up contents."""
    spec = CORES[name]()
    program = compiled_core(spec)
    found = {job: power_up_findings(program, made) for job, made in short_jobs(spec).items()}
    assert {job: findings for job, findings in found.items() if findings} == {}
    assert len(found) >= 6  # a cache on the chip has no raw mode


@pytest.mark.parametrize("name", ["instantft", "zotrain"])
def test_a_command_before_any_load_ends_and_leaves_nothing(name):
    spec = CORES[name]()
    assert unloaded_findings(compiled_core(spec), short_jobs(spec)["base"]) == []


@pytest.fixture
def not_cleared(monkeypatch):
    """RTL whose loads do not clear activations."""
    monkeypatch.setattr(ActivationClear, "elaborate", lambda self, platform: Module())


@pytest.mark.slow
@pytest.mark.usefixtures("not_cleared")
def test_a_block_that_clears_nothing_is_found(fast_simulator, monkeypatch):
    monkeypatch.setattr(verify_module, "emit", generate)
    assert verify(CONV, fast_simulator, words=20).mismatches > 0
    zeros = verify(CONV, fast_simulator, words=20, power_up=0)
    assert zeros.compared > 0 == zeros.mismatches


@pytest.mark.slow
@pytest.mark.usefixtures("not_cleared")
@pytest.mark.parametrize("name", ["instantft", "zotrain"])
def test_a_core_that_clears_nothing_is_found(name):
    findings = power_up_findings(mutated(CORES[name]()), short_jobs(CORES[name]())["base"])
    assert [one for one in findings if one.endswith("not golden's")]
    assert not [one for one in findings if one.startswith("power-up 0: ") and one.endswith("not golden's")]


@pytest.mark.slow
def test_fillers_that_are_not_driven_are_found(monkeypatch):
    """Fillers are in the cache in memory, but not in golden's data."""
    monkeypatch.setattr(CodePacker, "_filled", lambda self, row: row)
    assert power_up_findings(mutated(instantft()), short_jobs(instantft())["base"]) == [
        "power-up 2: memory not those of 1",
        "power-up 0: memory not those of 1",
    ]


def mutated(spec):
    """Program of a core with other RTL than the cache."""
    return compiled(generate(observable(spec)).verilog, spec.name, spec.memory_ports)
