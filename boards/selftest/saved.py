"""Self-test as JSON, with the job's memory in a second file, for boards and benches without golden."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...golden.axi.regions import Bytes
from ...golden.cores.core import CoreSpec
from ...golden.errors import UserError
from ...golden.files import parse_json
from .job import Expectation, SelfTest, SelfTestStage

PLACE = Path("tb", "data", "selftest.json")
"""File in a package; the memory is in the same folder."""


def described(test: SelfTest) -> dict[str, Any]:
    """Size and commands of a self-test in JSON types."""
    return {
        "size": test.size,
        "copy": [_stage(stage) for stage in test.copy],
        "stages": [_stage(stage) for stage in test.stages],
    }


def saved(test: SelfTest) -> str:
    """JSON of a self-test without its memory."""
    return json.dumps(described(test), indent=1) + "\n"


def packaged_test(spec: CoreSpec, package: Path) -> SelfTest:
    """Read the self-test of a package folder, for simulation; of expected bytes it has only the CRC-32.

    Missing or damaged files are a `UserError`.
    """
    test = SelfTest(spec)
    try:
        document = parse_json((package / PLACE).read_bytes())
        test.memory.images[0] = _image((package / PLACE).with_name("memory.hex"))
        test.memory.end = document["size"]
        for name in ("copy", "stages"):
            setattr(test, name, [_restored(spec, stage) for stage in document[name]])
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise UserError(f"{package / PLACE} or its memory is damaged ({error!r}): package the core anew") from error
    return test


def _stage(stage: SelfTestStage) -> dict[str, Any]:
    return {
        "name": stage.name,
        "command": stage.command.name.lower(),
        "settings": stage.settings,
        "counters": stage.counters,
        "memory": [[item.what, item.offset, item.size, item.crc32] for item in stage.memory],
    }


def _restored(spec: CoreSpec, stage: Mapping[str, Any]) -> SelfTestStage:
    command = spec.registers.commands[stage["command"].upper()]
    nothing = np.empty(0, np.uint8)
    memory = tuple(Expectation(what, offset, size, crc32, nothing) for what, offset, size, crc32 in stage["memory"])
    return SelfTestStage(stage["name"], command, stage["settings"], stage["counters"], memory)


def _image(file: Path) -> Bytes:
    """Read beats in hexadecimal, one per line, the lowest byte at the end of the line."""
    rows = [bytes.fromhex(line)[::-1] for line in file.read_text(encoding="utf-8").split()]
    return np.frombuffer(b"".join(rows), np.uint8)
