"""The zeroth-order core against golden's job: registers, memory, stalls, jobs in a row, a reset in the middle."""

import dataclasses
import json

import numpy as np
import pytest

from fabtune.golden.cores.zeroth_order.registers import Command
from fabtune.golden.cores.zotrain.registers import REGISTERS
from fabtune.sim.scenario import scenario

from ....small_cores import zotrain
from ..checks import check_bit_exact, check_commands, check_damage_is_found

SPEC = zotrain()


@pytest.mark.slow
def test_jobs_in_a_row_are_bit_exact():
    assert check_bit_exact(SPEC).cycles > 30_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"columns": 8, "lanes": 32},
        {"columns": 16},
        {"deltas": "ultra"},
        {"network": "1x5x5 conv3k3 relu flatten fc25", "loss": "mse", "cut_rows": 0},
    ],
)
def test_wider_cores_are_bit_exact(settings):
    check_bit_exact(dataclasses.replace(SPEC, **settings))


@pytest.mark.slow
def test_one_wrong_bit_in_the_memory_is_found():
    """One bit of a sample in memory differs from golden's."""

    def damage(samples):
        samples[::16] ^= 0x40

    check_damage_is_found(SPEC, 1, 10 * SPEC.mapping.forward.sample_beats * 16, damage, "records")


def test_a_scenario_has_all_commands():
    phases = scenario(SPEC, np.random.default_rng(1), 2000)
    outputs = {"host", "deltas", "logits", "logits #2", "records", "records #2", "records #3"}
    check_commands(phases, Command, Command.TRAIN, outputs)


def test_the_script_reads_all_that_golden_knows():
    steps = scenario(SPEC, np.random.default_rng(0), 1000)[0].script
    reads = {step.at for step in steps if step.kind == "read" and step.strobe}
    known = ("signature", "status", "interrupt", "error_address", "error_address_high")
    counters = ("steps_done", "saturations", "coefficients_clipped")
    assert reads == {REGISTERS[name].offset for name in (*known, *counters)}


def test_its_parameters_are_json():
    assert json.loads(json.dumps(dataclasses.asdict(SPEC)))["generator"]["strategy"] == "on-the-fly"
