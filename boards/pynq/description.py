"""Description of a core for the driver for PYNQ, as JSON."""

from __future__ import annotations

import json

from ..selftest.job import SelfTest, SelfTestStage
from ..vivado.ipxact import vlnv


def description(test: SelfTest, name: str, clock_hz: int) -> str:
    """Write registers, codes and the self-test of a core; a block design may have it as an IP or as a module.

    Parameters
    ----------
    test : SelfTest
    name : str
        Name of the core's top module and IP; Vivado's project leaves the rate that it reached in ``NAME.clock``.
    clock_hz : int
        Rate of the core's clock that was asked for.
    """
    core = test.spec.registers
    status = core.map["status"]
    found = {
        "bindto": [vlnv(name), f"xilinx.com:module_ref:{name}:1.0"],
        "name": test.spec.name,
        "signature": test.spec.signature,
        "clock_hz": clock_hz,
        "clock_file": f"{name}.clock",
        "registers": {register.name: register.offset for register in core.map},
        "settings": core.setting_names,
        "addresses": [address.name for address in core.addresses],
        "counters": core.counter_names,
        "commands": {code.name.lower(): code.value for code in core.commands},
        "errors": {str(code.value): code.name.lower() for code in core.errors},
        **{name: status.field(name).mask for name in ("busy", "done", "error_code")},
        "selftest": {
            "size": test.size,
            "copy": [_stage(stage) for stage in test.copy],
            "stages": [_stage(stage) for stage in test.stages],
        },
    }
    return json.dumps(found, indent=1) + "\n"


def _stage(stage: SelfTestStage) -> dict[str, object]:
    return {
        "name": stage.name,
        "command": stage.command.name.lower(),
        "settings": stage.settings,
        "counters": stage.counters,
        "memory": [[one.what, one.offset, one.size, one.crc32] for one in stage.memory],
    }
