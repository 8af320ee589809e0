"""Checks for the bench of every core: of a run, of a scenario, of a job against the integer job."""

import numpy as np

from fabtune.sim.compiled.comparison import compare
from fabtune.sim.scenario import scenario
from fabtune.sim.verify import verify, verify_phases


def check_bit_exact(spec):
    """Check that a scenario has no difference; returns the verdict."""
    verdict = verify(spec)
    assert (verdict.failures, verdict.differences, verdict.passed) == ((), (), True)
    return verdict


def check_damage_is_found(spec, place, size, damage, name):
    """Check that damage in a memory region shows in the output ``name``.

    ``place`` is the region's index in the order of addresses, ``size`` its bytes; ``damage`` changes the bytes.
    """
    phases = scenario(spec, np.random.default_rng(0), 1000)[:1]
    region = phases[0].memory[sorted(phases[0].memory)[place]]
    assert region.size == size
    damage(region)
    verdict = verify_phases(spec, phases)
    assert verdict.failures == ()
    assert verdict.mismatches > 3
    assert any(name in difference for difference in verdict.differences)


def check_commands(phases, commands, learning, outputs):
    """Check that a scenario has all commands, `learning` three times and once interrupted; returns the outputs."""
    given = [step.value for phase in phases for step in phase.script if step.kind == "write" and step.at == 0]
    assert set(given) == set(commands)
    assert given.count(learning) == 3
    assert {name for phase in phases for name in phase.expected} == outputs
    step, least, most = phases[0].midway
    assert phases[0].script[step].kind == "until"
    assert phases[0].script[step - 1].value == learning
    assert 0 < least < most


def samples_of(spec, rng, count=6):
    """Random samples of bytes, and labels."""
    network = spec.described
    return rng.integers(0, 256, (count, *network.input_shape)), rng.integers(0, network.classes, count)


def check_same_job(spec, job):
    """Check that a job of four batches or steps is equal in the compiled core; returns results and figures."""
    stages = []
    played, comparison = compare(spec, job, job.inputs[:5], stage=stages.append)
    assert (comparison.mismatches, comparison.compared, comparison.logits_compared) == (0, 4, 5)
    assert comparison.facts["bit_exact"]
    assert 0 < comparison.cycles < comparison.simulated
    assert stages == ["emit the core", "compile the simulator", "simulate the job", "compare"]
    return played, comparison


def check_difference_is_found(spec, job, updates):
    """Check that all updates differ, and all commands from the job on: results of job, save and inference."""
    _, comparison = compare(spec, job, job.inputs)
    assert comparison.mismatches == updates + 3
    assert not comparison.facts["bit_exact"]
    assert comparison.facts["first_difference"].startswith("update 1 of 4: byte ")
