"""What the random accesses of `axi`'s benches exercise."""

import numpy as np

from fabtune.golden.axi.axi_registers import AxiRegistersSpec
from fabtune.golden.cores.instantft_registers import REGISTERS
from fabtune.sim.axi.tb_axi_registers import scenario


def test_every_register_is_read_and_written():
    phases = scenario(AxiRegistersSpec(), np.random.default_rng(0), 2000)
    seen = {(step.kind, step.at) for phase in phases for step in phase.script}
    assert {("read", register.offset) for register in REGISTERS} <= seen
    assert {("write", register.offset) for register in REGISTERS} <= seen
