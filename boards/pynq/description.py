"""Description of a core for the driver for PYNQ, as JSON."""

from __future__ import annotations

import json

from ..example.job import Example
from ..selftest.job import SelfTest
from ..selftest.saved import described
from ..vivado.ipxact import vlnv


def description(test: SelfTest, name: str, clock_hz: int, example: Example | None = None) -> str:
    """Write registers, codes and the self-test of a core; a block design may have it as an IP or as a module.

    Parameters
    ----------
    test : SelfTest
    name : str
        Name of the core's top module and IP; Vivado's project leaves the rate that it reached in ``NAME.clock``.
    clock_hz : int
        Rate of the core's clock that was asked for.
    example : Example, optional
        A job that tunes a network, whose accuracies the driver counts.
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
        "memory_bits": test.spec.address,
        "counters": core.counter_names,
        "commands": {code.name.lower(): code.value for code in core.commands},
        "errors": {str(code.value): code.name.lower() for code in core.errors},
        **{name: status.field(name).mask for name in ("busy", "done", "error_code")},
        "selftest": described(test),
    }
    if example:
        places = {name: example.memory.addresses[name] for name in ("labels", "logits")}
        sizes = {name: getattr(example, name) for name in ("tested", "classes", "stride", "before", "after")}
        found["example"] = described(example.job) | places | sizes
    return json.dumps(found, indent=1) + "\n"
