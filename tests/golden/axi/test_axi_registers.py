"""The registers' model by hand, and their page."""

from pathlib import Path

import numpy as np

from fabtune.golden.axi.axi_registers import OKAY, SLVERR, AxiRegistersSpec, Model
from fabtune.golden.axi.register_map import markdown
from fabtune.golden.block import Step
from fabtune.golden.cores.instantft_registers import REGISTERS

PAGE = Path(__file__).parents[3] / "docs" / "blocks" / "axi" / "axi_registers.md"


def test_the_page_has_the_tables_of_the_map():
    text = PAGE.read_text()
    begin = text.index("| offset |")
    assert text[begin : text.index("R: read, W: write")] == markdown(REGISTERS) + "\n"


def test_by_hand():
    model = Model(REGISTERS, 0x1234)
    rate, status = REGISTERS["rate"].offset, REGISTERS["status"].offset
    assert model.write(rate, 0x11223344, 0b1111) == OKAY
    assert model.write(rate, 0xAABBCCDD, 0b0110) == OKAY
    assert model.read(rate) == (OKAY, 0x11BBCC44)
    assert model.write(status, 1, 0b1111) == SLVERR
    assert model.read(REGISTERS["signature"].offset) == (OKAY, 0x1234)
    assert model.read(0xFC) == (SLVERR, 0)
    assert model.write(REGISTERS["command"].offset, 0xFFFFFF03, 0b0001) == OKAY
    assert (model.wires["command"], model.strobes["command_strobe"]) == (3, 1)
    assert model.read(REGISTERS["command"].offset) == (OKAY, 0)


def test_the_interrupt_waits_to_be_cleared():
    model, pending = Model(REGISTERS, 0), REGISTERS["interrupt"].offset
    line = Step("get", "interrupt_line")
    model.step(Step("pulse", "finished"))
    assert (model.read(pending), model.step(line)) == ((OKAY, 1), (0, 0))
    model.write(REGISTERS["interrupt_enable"].offset, 1, 0b1111)
    assert model.step(line) == (0, 1)
    model.write(pending, 1, 0b1110)
    assert model.step(line) == (0, 1)
    model.write(pending, 1, 0b0001)
    assert model.step(line) == (0, 0)


def test_a_scenario_meets_every_register():
    phases = AxiRegistersSpec().scenario(np.random.default_rng(0), 2000)
    seen = {(step.kind, step.at) for phase in phases for step in phase.script}
    assert {("read", register.offset) for register in REGISTERS} <= seen
    assert {("write", register.offset) for register in REGISTERS} <= seen
