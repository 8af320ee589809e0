"""Self-test as data files: driver steps, memory and expected words."""

import re

import numpy as np
import pytest

from fabtune.boards.packaging import selftest_of
from fabtune.boards.testbench.job_data import job_data

from .conftest import SPECS

CASES = [pytest.param(spec, id=name) for name, spec in SPECS.items()]


def beats(text):
    """Bytes of a `$readmemh` file's lines, lowest address last."""
    return np.frombuffer(b"".join(bytes.fromhex(line)[::-1] for line in text.splitlines()), np.uint8)


@pytest.mark.parametrize("spec", CASES)
def test_memory_and_expected_words_are_the_self_test_s(spec):
    test = selftest_of(spec)
    data = job_data(test)
    assert beats(data.memory).tobytes() == test.image.tobytes()
    assert (len(data.memory.splitlines()), len(data.expected.splitlines())) == (data.memory_words, data.expected_words)
    expected, at = beats(data.expected), 0
    for one in (one for stage in test.stages for one in stage.memory):
        assert expected[at : at + one.size].tobytes() == one.image.tobytes()
        at += -(-one.size // 16) * 16
    assert at == expected.size


@pytest.mark.parametrize("spec", CASES)
def test_steps_are_those_of_the_driver(spec):
    test = selftest_of(spec)
    lines = job_data(test).program.splitlines()
    names = [line.partition(" ")[2] for line in lines if line.startswith("stage ")]
    assert names == ["signature", "reset", *(stage.name.replace(" ", "_") for stage in test.stages)]
    registers = spec.registers.map
    commands = [
        int(line.split()[2], 16) for line in lines if line.startswith(f"write {registers['command'].offset:08x}")
    ]
    assert commands == [stage.command for stage in test.stages]
    assert lines.count("wait") == len(commands)
    assert sum(line.startswith("memory ") for line in lines) == sum(len(stage.memory) for stage in test.stages)
    assert all(re.fullmatch(r"#.*|\w+( [^\s#]+){0,3}( # \w+)?", line) for line in lines)
