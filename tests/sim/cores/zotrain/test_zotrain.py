"""The zeroth-order core against golden's job: registers, memory, stalls, jobs in a row, a reset in the middle."""

import dataclasses
import json

import numpy as np
import pytest

from fabtune.golden.cores.zotrain.registers import REGISTERS, Command
from fabtune.sim.scenario import scenario
from fabtune.sim.verify import verify, verify_phases

from ....small_cores import zotrain

SPEC = zotrain()


def test_jobs_in_a_row_are_bit_exact():
    verdict = verify(SPEC)
    assert verdict.failures == ()
    assert verdict.differences == ()
    assert verdict.passed
    assert verdict.cycles > 30_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [{"columns": 8, "lanes": 32}, {"deltas": "ultra"}, {"network": "1x5x5 conv3k3 relu flatten fc25", "loss": "mse"}],
)
def test_wider_cores_are_bit_exact(settings):
    verdict = verify(dataclasses.replace(SPEC, **settings))
    assert (verdict.failures, verdict.differences, verdict.passed) == ((), (), True)


def test_one_wrong_bit_in_the_memory_is_found():
    """One bit of a sample differs in the memory from what golden has."""
    phases = scenario(SPEC, np.random.default_rng(0), 1000)[:1]
    addresses = sorted(phases[0].memory)
    samples = phases[0].memory[addresses[1]]
    assert samples.size == 10 * SPEC.mapping.forward.sample_beats * 16
    samples[::16] ^= 0x40
    verdict = verify_phases(SPEC, phases)
    assert verdict.failures == ()
    assert verdict.mismatches > 3
    assert any("records" in difference for difference in verdict.differences)


def test_a_scenario_has_all_commands():
    phases = scenario(SPEC, np.random.default_rng(1), 2000)
    commands = [step.value for phase in phases for step in phase.script if step.kind == "write" and step.at == 0]
    assert set(commands) == set(Command)
    assert commands.count(Command.TRAIN) == 3
    assert {name for phase in phases for name in phase.expected} == {
        *("host", "records", "records_again", "records_other"),
        *("deltas", "deltas_again", "deltas_other", "logits", "logits_other"),
    }
    step, least, most = phases[0].midway
    assert phases[0].script[step].kind == "until"
    assert phases[0].script[step - 1].value == Command.TRAIN
    assert 0 < least < most


def test_the_script_reads_all_that_golden_knows():
    steps = scenario(SPEC, np.random.default_rng(0), 1000)[0].script
    reads = {step.at for step in steps if step.kind == "read" and step.strobe}
    known = ("signature", "status", "interrupt", "error_address", "error_address_high")
    counters = ("steps_done", "saturations", "coefficients_clipped")
    assert reads == {REGISTERS[name].offset for name in (*known, *counters)}


def test_its_parameters_are_json():
    assert json.loads(json.dumps(dataclasses.asdict(SPEC)))["generator"]["strategy"] == "on-the-fly"
