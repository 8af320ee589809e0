"""Toggles of a core in a job: counted as in a VCD, and by part; impossible jobs are refused."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import vcd.reader

from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.errors import UserError
from fabtune.hw.verilog import emit
from fabtune.sim.compiled.activity import ActivityJob, activity, parts_of
from fabtune.sim.compiled.build import build
from fabtune.sim.compiled.saif import ROOT, Saif
from fabtune.sim.compiled.session import Dram, Session
from fabtune.sim.simulator import find

from ...small_cores import ONE_STAGE

VERILOG = Path(__file__).with_name("memcopy.v").read_text()
PERIOD = 4000
MEMORY = np.random.default_rng(6).integers(0, 256, 4096, dtype=np.uint8)
TRAINING = ZotrainSpec(**ONE_STAGE)

pytestmark = pytest.mark.skipif(not find("verilator"), reason="verilator is not installed")


def copied(waves, path):
    """Cycles of a copy of 20 beats, with waves written to a file."""
    session = Session(build(VERILOG, "memcopy", 1, waves=waves), MEMORY, Dram(noise=False), seed=5)
    session.write(0x08, 1)
    begun = session.run()["cycles"]
    session.waves(path, PERIOD)
    for offset, value in {0x0C: 1, 0x18: 0x100, 0x1C: 0x840, 0x34: 20, 0x00: 1}.items():
        session.write(offset, value)
    session.wait(10_000)
    session.end_waves()
    ended = session.run()["cycles"]
    session.cycles(100)  # they are in no file
    session.run()
    return ended - begun


def toggles_in_vcd(path):
    """Changes and first value of each bit, by net of the module."""
    codes, sizes, now, changes, first, scope = {}, {}, {}, Counter(), {}, []
    kinds = vcd.reader.TokenKind
    with path.open("rb") as file:
        for token in vcd.reader.tokenize(file):
            if token.kind is kinds.SCOPE:
                scope.append(token.data.ident)
            elif token.kind is kinds.UPSCOPE:
                scope.pop()
            elif token.kind is kinds.VAR and scope[-1:] == ["memcopy"]:
                codes[token.data.reference] = token.data.id_code
                sizes[token.data.id_code] = token.data.size
            elif token.kind in (kinds.CHANGE_SCALAR, kinds.CHANGE_VECTOR) and token.data.id_code in sizes:
                value, code = int(token.data.value), token.data.id_code
                first.setdefault(code, value)
                for bit in range(sizes[code]):
                    changes[code, bit] += (value ^ now.get(code, value)) >> bit & 1
                now[code] = value
    return {
        name: [(changes[code, bit], first[code] >> bit & 1) for bit in range(sizes[code])]
        for name, code in codes.items()
    }


@pytest.mark.slow
def test_toggles_are_those_of_a_vcd(tmp_path):
    cycles = copied("saif", tmp_path / "a.saif")
    assert copied("vcd", tmp_path / "a.vcd") == cycles
    saif = Saif.of((tmp_path / "a.saif").read_text(), "memcopy")
    assert saif.duration == cycles * PERIOD
    assert saif.toggles["aclk"] == (2 * cycles,) or saif.toggles["aclk"] == (2 * cycles - 1,)
    counted = toggles_in_vcd(tmp_path / "a.vcd")
    assert {"m_axi_gmem0_rdata", "m_axi_gmem0_wdata", "s_axi_control_awaddr"} <= set(counted)
    for name, bits in counted.items():
        # SAIF counts an additional toggle for a toggling bit with initial value 1
        assert saif.toggles[name] == tuple(count + (one if count else 0) for count, one in bits), name
    assert sum(saif.toggles["m_axi_gmem0_wdata"]) > 500


@pytest.mark.slow
def test_the_file_of_some_nets_reads_the_same(tmp_path):
    copied("saif", tmp_path / "a.saif")
    saif = Saif.of((tmp_path / "a.saif").read_text(), "memcopy")
    ports = ["aclk", "m_axi_gmem0_rdata"]
    text = saif.only(ports)
    again = Saif.of(text, "memcopy")
    assert again.toggles == {name: saif.toggles[name] for name in ports}
    assert again.duration == saif.duration
    assert f"(INSTANCE {ROOT}\n (INSTANCE memcopy\n" in text
    assert text.count("(") == text.count(")")
    with pytest.raises(UserError, match="has not ended"):
        Saif.of(text, "another")


def test_registers_are_counted_by_part():
    parts = parts_of(emit(TRAINING))
    assert set(parts.values()) >= {"shell", "registers", "generator", "engine", "deltas", "memory", "trainer"}
    assert parts["shell.code"] == "shell"


@pytest.mark.parametrize(
    ("job", "message"),
    [(ActivityJob(batch=600), "takes 1 to"), (ActivityJob(raw=True), "in DRAM"), (ActivityJob(batch=-1), "takes 1 to")],
)
def test_jobs_that_the_core_cannot_run_are_refused(job, message):
    with pytest.raises(UserError, match=message):
        activity(TRAINING, job, PERIOD)
