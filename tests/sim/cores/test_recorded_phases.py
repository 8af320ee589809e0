"""The phases of a bench equal the host driver's work on golden: accesses, memory, and the core's writes."""

import numpy as np
import pytest

from fabtune.boards.cores.zotrain.job import ZerothOrderTrainer
from fabtune.golden.cores.zeroth_order.registers import Command
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters
from fabtune.sim.cores.recorded_phases import RecordedCore
from fabtune.sim.phase import Step

from ...small_cores import zotrain

SPEC = zotrain()
REGISTERS = SPEC.registers.map


def at(name):
    return REGISTERS[name].offset


@pytest.fixture
def recorded():
    core = RecordedCore(SPEC, patience=500)
    host = ZerothOrderTrainer(core, SPEC)
    host.load(random_parameters(SPEC.described, np.random.default_rng(1)))
    core.phase(reset=True)
    return core, host


def test_a_command_is_recorded_as_the_driver_runs_it(recorded):
    core, _ = recorded
    buffer = core.allocate(core.place(ZerothOrderTrainer(core, SPEC).layout.deltas()).array.size)
    core.phase()
    core.run(Command.SAVE_DELTAS, deltas=buffer.device_address)
    assert core.last_wait == 6
    phase = core.phase()
    steps, answers = phase.script, phase.expected["host"]
    written = {step.at: step.value for step in steps if step.kind == "write"}
    address = {at("deltas"): buffer.device_address, at("deltas_high"): 0}
    assert written == address | {at("interrupt"): 1, at("interrupt_enable"): 1, at("command"): Command.SAVE_DELTAS}
    waiting = steps.index(Step("until", "interrupt", 500))
    assert steps[waiting - 1] == Step("write", at("command"), Command.SAVE_DELTAS)
    assert steps[waiting + 1 : waiting + 4] == (
        Step("read", at("interrupt")),
        Step("read", at("status")),
        Step("write", at("interrupt"), 1),
    )
    assert steps[-1] == Step("get", "interrupt")
    # an answer for each step except the wait, with mask 0 for values unknown to golden
    assert len(answers["value"]) == len(answers["response"]) == len(steps) - 1
    unknown = {step.at for step in steps if step.kind == "read" and not step.strobe}
    assert unknown == {at("cycles_low"), at("cycles_high")}
    assert not np.any(answers["response"])
    reads = [step for step in steps if step.kind != "until"]
    values = {step.at: int(value) for step, value in zip(reads, answers["value"][:, 0], strict=True) if step.strobe}
    assert values == dict.fromkeys(values, 0) | {at("status"): 2}
    assert core.phase().script == ()


def test_memory_is_what_the_host_wrote_and_compared_is_what_the_core_wrote(recorded):
    core, host = recorded
    rows = host.deltas() + 7
    saved = core.phase()
    assert (saved.memory, [*saved.expected]) == ({}, ["deltas", "host"])
    host.load_deltas(rows)
    loaded = core.phase()
    place = saved.kept["deltas"]
    assert (loaded.kept, [*loaded.memory], [*loaded.expected]) == ({}, [place], ["host"])
    host.deltas()
    image = host.layout.deltas(rows).image
    assert np.array_equal(loaded.memory[place], image)
    with pytest.raises(AssertionError, match="the core has written it in this phase"):
        host.load_deltas(rows)
    assert np.array_equal(core.phase().expected["deltas"]["byte"][:, 0], image)
