"""Blocks with AXI buses against golden, and objections of their bench."""

import dataclasses

import pytest

from fabtune.golden.axi.axi_read import AxiReadSpec
from fabtune.golden.axi.axi_registers import AxiRegistersSpec
from fabtune.golden.axi.axi_write import AxiWriteSpec
from fabtune.golden.errors import UserError
from fabtune.hw.top import ports_of
from fabtune.sim import verify as verify_module
from fabtune.sim.captures.capture import read_capture
from fabtune.sim.verify import verify

VARIATIONS = [
    pytest.param(AxiReadSpec(data=32, address=20, burst=4, depth=8), marks=pytest.mark.slow),
    pytest.param(AxiReadSpec(data=512, address=40), marks=pytest.mark.slow),
    pytest.param(AxiWriteSpec(data=32, address=20, burst=2, depth=4, outstanding=2), marks=pytest.mark.slow),
    pytest.param(AxiWriteSpec(data=512, address=40, burst=64), marks=pytest.mark.slow),
    AxiRegistersSpec(signature=0xDEADBEEF),
]


@pytest.mark.parametrize("spec", VARIATIONS, ids=str)
def test_variation(spec, fast_simulator):
    # beats of 4 bytes: many per word
    verdict = verify(spec, fast_simulator, words=50 if getattr(spec, "data", 128) == 32 else 150)
    assert verdict.failures == ()
    assert verdict.differences == ()
    assert verdict.passed


def corrupted(monkeypatch, old, new):
    """Let `verify` see Verilog with `old` replaced by `new`."""
    real = verify_module.emit

    def emit(spec):
        emitted = real(spec)
        assert old in emitted.verilog
        return dataclasses.replace(emitted, verilog=emitted.verilog.replace(old, new, 1))

    monkeypatch.setattr(verify_module, "emit", emit)


@pytest.mark.parametrize(
    ("spec", "old", "new", "objection"),
    [
        (AxiReadSpec(), "assign m_axi_gmem_arsize = 3'h4", "assign m_axi_gmem_arsize = 3'h5", "not of 16 bytes"),
        (AxiReadSpec(), "assign m_axi_gmem_arburst = 2'h1", "assign m_axi_gmem_arburst = 2'h0", "not incrementing"),
        pytest.param(
            *(AxiReadSpec(), "assign m_axis_tvalid = ", "assign m_axis_tvalid = 1'h0 & ", "nothing moved"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *(AxiWriteSpec(), "assign m_axi_gmem_bready = 1'h1", "assign m_axi_gmem_bready = 1'h0", "nothing moved"),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_broken_bus_is_an_objection(spec, old, new, objection, fast_simulator, monkeypatch):
    corrupted(monkeypatch, old, new)
    verdict = verify(spec, fast_simulator, words=40)
    assert any(objection in failure for failure in verdict.failures)
    assert not verdict.passed


@pytest.mark.parametrize(
    ("spec", "wire", "width"),
    [
        pytest.param(AxiReadSpec(), "m_axi_gmem_rdata", 128, marks=pytest.mark.slow),
        (AxiWriteSpec(burst=4, depth=8, outstanding=4), "s_axis_tdata", 128),
    ],
)
def test_a_flipped_bit_is_seen(spec, wire, width, fast_simulator, monkeypatch):
    inside = f"  wire [{width - 1}:0] {wire}_flipped = {wire} ^ {width}'d4;"
    real = verify_module.emit

    def emit(spec):
        emitted = real(spec)
        head, declared, body = emitted.verilog.partition(f"  wire [{width - 1}:0] {wire};\n")
        assert declared
        return dataclasses.replace(
            emitted, verilog=f"{head}{declared}{inside}\n{body.replace(wire, f'{wire}_flipped')}"
        )

    monkeypatch.setattr(verify_module, "emit", emit)
    # once for each beat
    assert verify(spec, fast_simulator, words=20).mismatches > 3 * 2 * 10


def test_another_signature_is_seen(fast_simulator):
    verdict = verify(AxiRegistersSpec(signature=1), fast_simulator, words=100, rtl=AxiRegistersSpec(signature=2))
    # one read in each phase of each test at least
    assert verdict.mismatches >= 6


@pytest.mark.parametrize("spec", [AxiReadSpec(), AxiWriteSpec(), AxiRegistersSpec()], ids=lambda spec: spec.name)
def test_a_capture_of_a_bus_is_refused(spec, tmp_path):
    with pytest.raises(UserError, match=f"use fabtune verify {spec.name}"):
        read_capture(tmp_path / "capture.csv", spec, ports_of(spec))
    with pytest.raises(UserError, match=f"use fabtune verify {spec.name}"):
        spec.run({}, 1)


@pytest.mark.parametrize(
    ("kind", "wrong", "message"),
    [
        (AxiReadSpec, {"data": 100}, "data = 100"),
        (AxiReadSpec, {"data": 16}, "data = 16"),
        (AxiReadSpec, {"address": 8}, "address = 8"),
        (AxiReadSpec, {"data": 1024, "burst": 64}, "at most 4096 bytes"),
        (AxiReadSpec, {"depth": 100}, "a FIFO of 100 beats"),
        (AxiWriteSpec, {"depth": 16}, "16 beats in the FIFO"),
        (AxiWriteSpec, {"outstanding": 3}, "3 bursts outstanding"),
        (AxiRegistersSpec, {"signature": 1 << 32}, "does not fit"),
        (AxiRegistersSpec, {"registers": "toaster"}, "registers = 'toaster': there is no core of this name"),
        (AxiRegistersSpec, {"registers": "..x"}, "no core of this name"),
    ],
)
def test_a_wrong_parameter_is_refused(kind, wrong, message):
    with pytest.raises(UserError, match=message):
        kind(**wrong)
