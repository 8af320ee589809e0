"""Two cores of different settings in one design: disjoint names, and both work at the same time."""

import os
from pathlib import Path

import pytest

from fabtune.boards.identity import design_name
from fabtune.boards.packaging import selftest_of
from fabtune.golden.registry import BLOCKS
from fabtune.golden.settings import build, settings_of
from fabtune.hw.axi.bus import TopPin
from fabtune.hw.hierarchy import modules_of
from fabtune.hw.verilog import Emitted, emit
from fabtune.sim.simulator import find, simulate

from ..small_cores import DEEP, ONE_STAGE, with_slow, words, zostream

FIRST = ("zotrain", words(ONE_STAGE))
PAIRS = {
    "of one kind": {"first": FIRST, "second": ("zotrain", words(DEEP))},
    "of two kinds": {"first": FIRST, "second": ("zostream", settings_of(zostream()))},
}
HERE = Path(__file__).parent
SHARED = ("aclk", "aresetn")


def emitted(cores):
    """Both cores of a pair, with different names."""
    specs = {name: build(BLOCKS[block], settings) for name, (block, settings) in cores.items()}
    return {name: emit(spec, design_name(spec)) for name, spec in specs.items()}


def pair(cores):
    """A design of both cores: the pins of each, prefixed with the core's name."""
    pins = [TopPin(name, "in", 1) for name in SHARED]
    instances = []
    for name, core in cores.items():
        own = [pin for pin in core.pins if pin.name not in SHARED]
        pins += [TopPin(f"{name}_{pin.name}", pin.direction, pin.width) for pin in own]
        wired = [f".{pin.name}({pin.name if pin.name in SHARED else f'{name}_{pin.name}'})" for pin in core.pins]
        instances.append(f"{core.top} {name} ({', '.join(wired)});")
    ports = ", ".join(f"{pin.direction}put [{pin.width - 1}:0] {pin.name}" for pin in pins)
    text = "\n".join(
        [*(core.verilog for core in cores.values()), f"module pair({ports});", *instances, "endmodule", ""]
    )
    return Emitted("pair", text, "", {}, tuple(pins), "aclk", "aresetn", 0)


@pytest.mark.parametrize("kinds", with_slow(PAIRS, ("of two kinds",)))
def test_no_module_is_in_both(kinds):
    cores = emitted(PAIRS[kinds])
    first, second = (set(modules_of(core.verilog)) for core in cores.values())
    assert not first & second
    assert all(one.startswith(cores["first"].top) for one in first)


@pytest.mark.parametrize(
    ("kinds", "simulator"),
    [
        ("of one kind", "icarus"),
        ("of one kind", "verilator"),
        ("of two kinds", "verilator"),
    ],
)
@pytest.mark.slow
def test_both_run_their_self_tests_in_one_simulation(kinds, simulator, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]))
    if not find(simulator):
        pytest.skip(f"{simulator} is not installed")
    cores = PAIRS[kinds]
    run = simulate(pair(emitted(cores)), {"cores": cores, "seed": 0}, simulator, bench="pair_bench")
    assert run.failures == ()
    for name, (block, settings) in cores.items():
        stages = selftest_of(build(BLOCKS[block], settings)).stages
        assert run.tests[name] == [stage.name for stage in stages]
