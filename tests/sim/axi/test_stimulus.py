"""Coverage of the random accesses in `axi`'s benches."""

import numpy as np

from fabtune.golden.axi.axi_registers import AxiRegistersSpec
from fabtune.golden.cores.instantft.registers import REGISTERS
from fabtune.sim.axi.tb_axi_registers import scenario


def test_every_register_is_read_and_written():
    phases = scenario(AxiRegistersSpec(), np.random.default_rng(0), 2000)
    seen = {(step.kind, step.at) for phase in phases for step in phase.script}
    assert {("read", register.offset) for register in REGISTERS} <= seen
    assert {("write", register.offset) for register in REGISTERS} <= seen


def test_every_register_is_written_locked_and_not():
    locked, seen = 0, set()
    for phase in scenario(AxiRegistersSpec(), np.random.default_rng(0), 2000):
        locked = 0 if phase.reset else locked
        for step in phase.script:
            locked = step.value if step.at == "locked" else locked
            seen |= {(locked, step.at)} if step.kind == "write" else set()
    assert {(level, register.offset) for register in REGISTERS for level in (0, 1)} <= seen
