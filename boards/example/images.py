"""Regions of an example's job as files for other host programs, with a JSON description."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np

from ...golden.axi.regions import ALIGNMENT
from ...golden.spec_file import signature_text
from ..manifest import digest
from ..selftest.job import SelfTestStage
from .job import Example

JOB_FILE = "job.json"


def image_files(example: Example) -> dict[str, str | bytes]:
    """Make a file of each region that the host writes, and `JOB_FILE`; contents by file name.

    The JSON has the core (``core``, ``signature``, ``parameters``), ``data``, ``tuning``, the ``memory``'s regions with
    offset, size, file and SHA-256, the ``commands`` in order with registers, counters and expected memory, and golden's
    ``accuracy``.
    """
    memory, spec, task = example.memory, example.spec, example.data
    files: dict[str, str | bytes] = {}
    regions = []
    for name, region in memory.regions.items():
        found: dict[str, Any] = {"name": name, "register": region.register, "offset": memory.addresses[name]}
        found |= {"size": region.size, "file": None, "sha256": None}
        if region.image.size:
            content = region.image.tobytes()
            files[f"{name}.bin"] = content
            found |= {"file": f"{name}.bin", "sha256": digest(content)}
        regions.append(found)
    described = {
        "core": spec.name,
        "signature": signature_text(spec),
        "parameters": dataclasses.asdict(spec),
        "data": {"name": task.name, "sha256": task.digest},
        "tuning": example.how,
        "memory": {"size": memory.end, "alignment": ALIGNMENT, "regions": regions},
        "commands": [_command(example, stage) for stage in example.job.stages],
        "accuracy": {name: getattr(example, name) for name in ("tested", "before", "after", "classes", "stride")},
    }
    return {JOB_FILE: json.dumps(described, indent=1, default=_plain) + "\n", **files}


def _command(example: Example, stage: SelfTestStage) -> dict[str, Any]:
    """Describe a command: addresses as names of regions, other settings as numbers."""
    names = {at: name for name, at in example.memory.addresses.items()}
    addresses = {address.name for address in example.spec.registers.addresses}
    values = stage.settings.items()
    return {
        "name": stage.name,
        "command": {"name": stage.command.name.lower(), "code": int(stage.command)},
        "addresses": {name: names[value] for name, value in values if name in addresses},
        "settings": {name: value for name, value in values if name not in addresses},
        "counters": stage.counters,
        "expected": [
            {"region": names[one.offset], "size": one.size, "sha256": digest(one.image.tobytes()), "crc32": one.crc32}
            for one in stage.memory
        ],
    }


def _plain(value: Any) -> int:
    """Convert a NumPy integer for JSON."""
    if isinstance(value, np.integer):
        return int(value)
    raise TypeError(f"{type(value).__name__} is not for JSON")
