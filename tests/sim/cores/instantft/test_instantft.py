"""The fine-tuning core against golden's job: registers, memory, stalls, jobs in a row, a reset in the middle."""

import dataclasses
import json

import numpy as np
import pytest

from fabtune.golden.cores.adapters.registers import Command
from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.instantft.registers import REGISTERS
from fabtune.golden.errors import UserError
from fabtune.hw.top import ports_of
from fabtune.sim.captures.capture import read_capture
from fabtune.sim.scenario import scenario

from ....small_cores import NETWORK, OPTIONS, instantft
from ..checks import check_bit_exact, check_commands, check_damage_is_found

SPEC = instantft()


@pytest.mark.slow
def test_jobs_in_a_row_are_bit_exact():
    assert check_bit_exact(SPEC).cycles > 30_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"ports": 2},
        {"ports": 3, "columns": 16},
        # words of two pixels: of a pool, of neighbouring outputs; and clipped sums next to partial sums
        {"network": NETWORK, "lanes": 16, "columns": 16},
        {"network": "1x8x9 conv4k3 relu1.5 pool2 dw2 relu conv3k1 flatten fc3", "lanes": 16, "columns": 8},
        {"cache": "chip", "cache_entries": 64},
        {"network": "1x5x5 conv3k3 relu flatten fc25", "lanes": 16, "loss": "mse"},
        {"lanes": 16, **OPTIONS},
    ],
)
def test_wider_cores_are_bit_exact(settings):
    check_bit_exact(InstantftSpec(**({"network": "digits"} | settings)))


LARGE_MAPS = "3x96x96 conv16k3p1 relu conv16k3p1 relu conv16k3p1 relu pool4 flatten fc10"


@pytest.mark.parametrize(
    ("memories", "refusal"),
    [
        ({"ports": 4}, "ports = 4: give 1 to 3"),
        ({"cache": "disk"}, "cache = 'disk' is not one of dram, chip, none"),
        ({"cache": "chip", "ports": 2}, "one is enough"),
        ({"network": "64 fc8 fc64", "loss": "mse", "early_stop": True}, "the cross entropy of labels"),
        ({"validation": True}, "validation without early_stop"),
        ({"tunes": "layer", "last_only": True}, "last_only with tunes = layer: there are no adapters to place"),
        ({"batch": 1}, "batch = 1"),
        ({"cache_entries": 0}, "cache_entries = 0"),
        (
            {"network": LARGE_MAPS, "last_only": True},
            "a record in Q8.16 of .* takes 76040 beats of 16 bytes: at most 65535",
        ),
    ],
)
def test_memories_that_make_no_sense_are_refused(memories, refusal):
    with pytest.raises(UserError, match=refusal):
        InstantftSpec(**memories)


@pytest.mark.slow
def test_one_wrong_bit_in_the_memory_is_found():
    """One bit of an input in memory differs from golden's."""
    sample = SPEC.mapping.forward.sample_beats * 16

    def damage(samples):
        samples[3 * sample + 20] ^= 0x40

    check_damage_is_found(SPEC, 2, 8 * sample, damage, "cache")


def test_a_scenario_has_all_commands_and_both_caches():
    phases = scenario(SPEC, np.random.default_rng(1), 1000)
    outputs = {"host", "adapters", "adapters #2", "cache", "cache #2", "cache #3", "logits"}
    outputs |= {f"logits #{number}" for number in (2, 3, 4)}
    check_commands(phases, Command, Command.TUNE, outputs)


def test_the_script_is_the_drivers():
    """Cycles of a command, unknown to golden, are read as by the driver and not compared."""
    steps = scenario(SPEC, np.random.default_rng(0), 1000)[0].script
    reads = [step for step in steps if step.kind == "read"]
    ignored = {REGISTERS[name].offset for name in ("cycles_low", "cycles_high")}
    assert {step.at for step in reads if not step.strobe} == ignored
    assert {step.at for step in reads if step.strobe} == {
        REGISTERS[name].offset
        for name in (
            "signature",
            "status",
            "interrupt",
            "error_address",
            "error_address_high",
            "batches",
            "misses",
            "saturations",
        )
    }
    assert {step.strobe for step in steps} == {0x0, 0xF}


def test_a_capture_of_the_core_is_refused(tmp_path):
    with pytest.raises(UserError, match="use fabtune verify instantft"):
        read_capture(tmp_path / "capture.csv", SPEC, ports_of(SPEC))
    with pytest.raises(UserError, match="no streams to capture"):
        SPEC.run({}, 1)


def test_compare_refuses_it_in_one_line(tmp_path, monkeypatch, capsys):
    from fabtune.scripts.cli import main

    monkeypatch.setattr("sys.argv", ["fabtune", "compare", "instantft", "capture.csv"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_its_parameters_are_json():
    assert json.loads(json.dumps(dataclasses.asdict(SPEC)))["network"] == NETWORK
