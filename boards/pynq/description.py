"""JSON description of a core for the PYNQ driver."""

from __future__ import annotations

import json

from ..example.job import Example
from ..selftest.job import SelfTest
from ..selftest.saved import described
from ..vivado.ipxact import vlnv


def description(test: SelfTest, name: str, clock_hz: int, example: Example | None = None) -> str:
    """JSON of a core's registers, codes and self-test. In the block design the core is an IP or a module reference.

    Parameters
    ----------
    test : SelfTest
    name : str
        Name of the core's top module and IP; Vivado's project writes the reached rate into ``NAME.clock``.
    clock_hz : int
        Requested rate of the core's clock.
    example : Example, optional
        Job that tunes a network; the driver counts accuracies.
    """
    core = test.spec.registers
    status = core.map["status"]
    fields = {
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
        addresses = {name: example.memory.addresses[name] for name in ("labels", "logits")}
        sizes = {name: getattr(example, name) for name in ("tested", "classes", "stride", "before", "after")}
        fields["example"] = described(example.job) | addresses | sizes
    return json.dumps(fields, indent=1) + "\n"
