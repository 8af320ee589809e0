"""Self-test of a core as data for a bench without Python: steps as text; memory and expected words for `$readmemh`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...golden.axi.bus import BEAT
from ...golden.axi.regions import Bytes
from ...golden.axi.register_map import SIGNATURE
from ...golden.cores.shell import RESET, Setting
from ..example.job import Example
from ..selftest.job import SelfTest, SelfTestStage


@dataclass(frozen=True)
class JobData:
    """Files of a job.

    ``program`` has the steps, see the head of ``templates/tb.sv``. ``memory`` is the memory before the first stage;
    ``expected`` has the words that the steps ``memory`` compare, in order. Both have a beat of 128 bits in hexadecimal
    per line; ``memory_words`` and ``expected_words`` are the numbers of beats.
    """

    program: str
    memory: str
    expected: str
    memory_words: int
    expected_words: int


def job_data(test: SelfTest, example: Example | None = None) -> JobData:
    """Data of a core's self-test, or with `example` of the example's job, with accuracies."""
    memory = _beats(test.image)
    expected = [_beats(region.image) for stage in test.stages for region in stage.memory]
    pending = RESET.field("pending").mask
    what = "Example" if example else "Self-test"
    lines = [
        f"# {what} of {test.spec.name}, generated. tb.sv says what the steps are; all numbers are hexadecimal.",
        f"stage signature\n{_read(test, SIGNATURE, 0xFFFFFFFF, test.spec.signature)}",
        f"stage reset\n{_write(test, RESET.name, pending)}\n{_read(test, RESET.name, pending, 0, 'poll')}",
        *(line for stage in test.stages for line in (*_steps(test, stage), *_accuracy(stage, example))),
    ]
    beats = np.concatenate(expected)
    return JobData("\n".join([*lines, ""]), _hex(memory), _hex(beats), len(memory), len(beats))


def _steps(test: SelfTest, stage: SelfTestStage) -> Iterator[str]:
    """Steps of a stage, as in the driver `boards.host.driver.Core.run`."""
    registers = test.spec.registers
    shell = registers.map
    finished = shell["interrupt"].field("finished").mask
    busy, done, error = (shell["status"].field(name).mask for name in ("busy", "done", "error"))
    yield f"stage {_word(stage.name)}"
    yield _read(test, "status", busy, 0)
    settings = {item.name: item for item in registers.settings}
    addresses = {item.name for item in registers.addresses}
    for name, value in stage.settings.items():
        if name in addresses:
            offsets = " ".join(_number(shell[register].offset) for register in settings[name].registers)
            yield f"address {offsets} {_number(value)} # {name}"
        else:
            yield from _writes(test, settings[name], value)
    yield _write(test, "interrupt", finished)
    yield _write(test, "interrupt_enable", finished)
    yield _write(test, "command", stage.command)
    yield "wait"
    yield _write(test, "interrupt", finished)
    yield _read(test, "status", busy | done | error, done)
    for name, value in stage.counters.items():
        yield _read(test, name, 0xFFFFFFFF, value)
    for region in stage.memory:
        yield f"memory {_number(region.offset)} {_number(region.size)} {_word(region.what)}"


def _accuracy(stage: SelfTestStage, example: Example | None) -> Iterator[str]:
    """After an inference, the step that counts correctly classified samples."""
    if example and (logits := [region for region in stage.memory if region in example.logits]):
        right = example.before if logits[0] is example.logits[0] else example.after
        offsets = logits[0].offset, example.memory.addresses["labels"]
        sizes = example.tested, example.classes, example.stride
        yield f"correct {' '.join(map(_number, (*offsets, *sizes, right)))}"


def _writes(test: SelfTest, setting: Setting, value: int) -> Iterator[str]:
    for name, word in setting.words(value).items():
        yield _write(test, name, word)


def _write(test: SelfTest, name: str, value: int) -> str:
    return f"write {_number(test.spec.registers.map[name].offset)} {_number(value)} # {name}"


def _read(test: SelfTest, name: str, mask: int, value: int, step: str = "read") -> str:
    return f"{step} {_number(test.spec.registers.map[name].offset)} {_number(mask)} {_number(value)} # {name}"


def _number(value: int) -> str:
    return f"{value:08x}"


def _word(text: str) -> str:
    return text.replace(" ", "_")


def _beats(image: Bytes) -> Bytes:
    padded = np.zeros(-(-image.size // BEAT) * BEAT, np.uint8)
    padded[: image.size] = image
    return padded.reshape(-1, BEAT)


def _hex(beats: Bytes) -> str:
    """Beats as hexadecimal lines; the byte at the lowest address is at the end of a line."""
    return "".join(f"{row[::-1].tobytes().hex()}\n" for row in beats)
