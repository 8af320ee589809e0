"""The compiled simulator on a small core that copies memory: data, timing, faults, broken rules, saved states."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fabtune.golden.errors import UserError
from fabtune.sim.compiled import build as build_module
from fabtune.sim.compiled.build import build
from fabtune.sim.compiled.session import Dram, Session
from fabtune.sim.simulator import find

VERILOG = Path(__file__).with_name("memcopy.v").read_text()
COMMAND, STATUS, ENABLE, INTERRUPT, ERROR_ADDRESS, SIGNATURE = 0x00, 0x04, 0x08, 0x0C, 0x10, 0x14
SOURCE, DESTINATION, COUNT, BREAK, CYCLES = 0x18, 0x1C, 0x34, 0x44, 0x48
(WLAST_EARLY, WIDE_BURSTS, AR_FALLS, W_CHANGES, NARROW, NEVER_DONE, LOOSE, MONITOR_OUTSIDE, WLAST_LATE, AR_CHANGES,
 HALF_STROBES) = range(1, 12)  # fmt: skip
MEMORY = np.random.default_rng(4).integers(0, 256, 1 << 16, dtype=np.uint8)

pytestmark = pytest.mark.skipif(not find("verilator"), reason="verilator is not installed")


@pytest.fixture(scope="module")
def program():
    return build(VERILOG, "memcopy", 1)


@pytest.fixture(scope="module")
def program_with_two_ports():
    return build("`define TWO\n" + VERILOG, "memcopy", 2)


def copy(session, source=0x0100, destination=0x8040, count=1000, broken=0):
    """Prepare and start a job of `count` beats, without waiting."""
    registers = {ENABLE: 1, INTERRUPT: 1, SOURCE: source, DESTINATION: destination, COUNT: count, BREAK: broken}
    for offset, value in (registers | {COMMAND: 1}).items():
        session.write(offset, value)


def copied(program, dram=None, seed=0, **job):
    """Result and written memory of a whole job."""
    session = Session(program, MEMORY, dram, seed)
    copy(session, **job)
    session.wait(200_000)
    for offset in (STATUS, ERROR_ADDRESS):
        session.read(offset)
    session.dump(0, MEMORY.size, "memory")
    result = session.run()
    return result, result["dumps"]["memory"]


def expected(source=0x0100, destination=0x8040, count=1000):
    memory = MEMORY.copy()
    memory[destination : destination + 16 * count] = MEMORY[source : source + 16 * count]
    return memory


@pytest.mark.parametrize("dram", [Dram(), Dram.stressed(), Dram.stressed(0.8), Dram(1, 0, 1.0, outstanding=1)])
@pytest.mark.parametrize("ports", [1, 2])
def test_every_byte_arrives(dram, ports, request):
    program = request.getfixturevalue("program_with_two_ports" if ports == 2 else "program")
    for seed in range(3):
        result, memory = copied(program, dram, seed)
        np.testing.assert_array_equal(memory, expected())
        assert result["waits"][0]["ended"] == "interrupt"
        assert result["reads"][0] == {"offset": STATUS, "value": 2, "response": 0}
        assert sum(port["read_beats"] for port in result["ports"]) == 1000
        assert sum(port["write_beats"] for port in result["ports"]) == 1000
        assert result["waits"][0]["read_beats"] == ([1000, 0] if ports == 2 else [1000])


def test_the_same_seed_gives_the_same_run(program):
    runs = [copied(program, Dram.stressed(), seed)[0]["cycles"] for seed in (7, 7, 8)]
    assert runs[0] == runs[1] != runs[2]


@pytest.mark.parametrize(("latency", "jitter"), [(100, 0), (100, 31), (33, 5)])
def test_latency_is_at_least_what_was_asked(program, latency, jitter):
    # a beat read and written back: both latencies in sequence, and little else
    cycles = [copied(program, Dram(latency, jitter, 1.0), seed, count=1)[0]["waits"][0]["cycles"] for seed in range(8)]
    assert min(cycles) >= 2 * latency
    assert max(cycles) <= 2 * (latency + jitter) + 20
    assert (len(set(cycles)) > 1) == (jitter > 0)


@pytest.mark.parametrize("duty", [0.3, 0.7, 1.0])
def test_reads_and_writes_share_the_duty(program, program_with_two_ports, duty):
    dram = Dram(4, 0, duty, outstanding=64)
    (port,) = copied(program, dram, count=1500)[0]["ports"]
    assert port["duty"] == pytest.approx(duty, abs=0.05)
    assert port["use"] <= duty + 0.02
    # each of two ports has a duty
    ports = copied(program_with_two_ports, dram, count=1500)[0]["ports"]
    assert [port["duty"] for port in ports] == pytest.approx([duty, duty], abs=0.05)
    assert sum(port["use"] for port in ports) > port["use"]


@pytest.mark.parametrize(
    ("kind", "response", "code"),
    [("read", "slverr", 8), ("read", "decerr", 9), ("write", "slverr", 10), ("write", "decerr", 11)],
)
def test_faults_reach_the_core(program, kind, response, code):
    session = Session(program, MEMORY)
    at = 0x0100 + 0x230 if kind == "read" else 0x8040 + 0x230
    session.fault(kind, at, 1, response)
    copy(session)
    session.wait(100_000)
    session.read(STATUS)
    session.read(ERROR_ADDRESS)
    session.dump(at, 16, "there")
    session.no_faults()
    copy(session)
    session.wait(100_000)
    session.read(STATUS)
    result = session.run()
    status, address, after = (read["value"] for read in result["reads"])
    assert (status >> 8 & 0xFF, status & 7) == (code, 6)
    assert result["ports"][0]["faulty_beats"] == 1
    # a faulty write leaves the memory as it was
    np.testing.assert_array_equal(result["dumps"]["there"], MEMORY[at : at + 16])
    assert address == (at & ~15 if kind == "read" else 0)
    assert after == 2


@pytest.mark.parametrize(("job", "code"), [({"source": 0xFF00}, 9), ({"destination": 0xFF00}, 11)])
def test_outside_the_memory_is_a_decode_error(program, job, code):
    result, _ = copied(program, count=100, **job)
    assert result["reads"][0]["value"] >> 8 == code


@pytest.mark.parametrize(
    ("broken", "job", "message"),
    [
        (WLAST_EARLY, {}, r"WLAST is 1 in beat 15 of 16 of the burst at 0x00008040"),
        (WLAST_LATE, {}, r"WLAST is 0 in beat 16 of 16"),
        (WIDE_BURSTS, {"source": 0x0F80}, r"AR burst of 16 beats at 0x00000f80 crosses a boundary of 4 KiB"),
        (AR_FALLS, {}, r"ARVALID fell before ready"),
        (AR_CHANGES, {}, r"an AR changed while it waited"),
        (W_CHANGES, {}, r"a W changed while it waited"),
        (NARROW, {}, r"has size 2, not 4"),
        (0, {"source": 0x0108}, r"0x00000108 is not aligned to 16 bytes"),
        (0, {"destination": 0x0180}, r"m_axi_gmem0: .* a race"),
        (NEVER_DONE, {}, r"still busy after 20000 cycles"),
    ],
)
def test_broken_rules_end_the_run(program, broken, job, message):
    def wrong():
        session = Session(program, MEMORY, Dram.stressed(0.5))
        copy(session, broken=broken, **job)
        session.wait(20_000)
        session.read(STATUS)
        return session

    session = wrong()
    with pytest.raises(UserError, match=f"^memcopy: line [0-9]+, wait: .*{message}"):
        session.run()
    with pytest.raises(UserError, match="memcopy: the session has ended, with status 1"):
        session.run()
    result = wrong().run(check=False)
    assert result["error"]
    assert result["reads"] == []


def test_a_command_that_ends_before_its_last_answer_ends_the_run(program):
    message = r"memcopy: line \d+, read: m_axi_gmem0: a burst of writes is outstanding behind the end of a command"
    with pytest.raises(UserError, match=message):
        copied(program, broken=LOOSE)


def test_races_are_found_between_ports_too(program_with_two_ports):
    with pytest.raises(UserError, match="race"):
        copied(program_with_two_ports, destination=0x0180)
    copied(program_with_two_ports, replace(Dram(), hazards=False), destination=0x0180)


def test_only_the_strobed_bytes_change(program):
    _, memory = copied(program, broken=HALF_STROBES)
    mixed = expected().reshape(-1, 16)
    mixed[:, 8:] = MEMORY.reshape(-1, 16)[:, 8:]
    np.testing.assert_array_equal(memory, mixed.reshape(-1))


def test_a_session_in_parts_is_the_same_as_in_one(program):
    dram, image = Dram.stressed(), np.zeros(16 * 700, np.uint8)

    def begin():
        session = Session(program, MEMORY, dram, seed=5)
        session.shadow(image)
        session.trace()
        copy(session, count=700)
        session.cycles(900)
        return session

    def end(session):
        session.wait(100_000)
        session.read(CYCLES)
        session.dump(0, MEMORY.size, "memory")
        return session.run()

    whole = end(begin())
    session = begin()
    before = session.run()
    after = end(session)
    assert 0 < before["ports"][0]["write_beats"] < 700
    for key in ("cycles", "reads", "ports", "batches", "updates"):
        assert after[key] == whole[key], key
    assert after["simulated"] == whole["simulated"] - before["simulated"]
    np.testing.assert_array_equal(after["dumps"]["memory"], whole["dumps"]["memory"])
    np.testing.assert_array_equal(np.concatenate([before["trace"], after["trace"]]), whole["trace"])


def test_only_regions_can_be_touched(program):
    def ended(*regions):
        session = Session(program, MEMORY)
        for region in regions:
            session.region(*region)
        copy(session, count=100)
        session.wait(100_000)
        session.read(STATUS)
        return session.run()["reads"][0]["value"] >> 8

    assert ended((0x0100, 1600), (0x8040, 1600)) == 0
    assert ended((0x8040, 1600), (0x0000, 0x0100 + 1600)) == 0
    assert ended((0x0100, 1599), (0x8040, 1600)) == 9
    assert ended((0x0110, 1590), (0x8040, 1600)) == 9
    assert ended((0x0100, 1600), (0x8040, 1584)) == 11
    assert ended((0x0100, 1600)) == 11


def test_a_memory_may_be_as_large_as_addresses_reach(program):
    session = Session(program, 1 << 32)
    high = (1 << 32) - MEMORY.size
    session.load(high, MEMORY)
    copy(session, source=high + 0x0100, destination=(1 << 16) - 800, count=100)
    session.wait(200_000)
    session.dump((1 << 16) - 800, 1600, "there")
    np.testing.assert_array_equal(session.run()["dumps"]["there"], MEMORY[0x0100:][:1600])


def test_the_trace_holds_the_image_after_every_batch(program):
    # memcopy ends a batch with each burst of 16 beats; the first burst is short, up to a boundary
    session = Session(program, MEMORY)
    session.shadow(np.full(16 * 64, 0xAA, np.uint8))
    session.trace()
    copy(session, source=0x0400, destination=0x8000, count=64)
    session.wait(100_000)
    session.cycles(4)
    result = session.run()
    images = np.full((4, 16 * 64), 0xAA, np.uint8)
    for batch in range(4):
        images[batch, : 256 * (batch + 1)] = MEMORY[0x0400 : 0x0400 + 256 * (batch + 1)]
    np.testing.assert_array_equal(result["trace"], images)
    assert (result["batches"], result["updates"]) == (4, 64)


def test_a_beat_outside_the_image_ends_the_run(program):
    session = Session(program, MEMORY)
    session.shadow(np.zeros(16 * 1000, np.uint8))
    copy(session, broken=MONITOR_OUTSIDE)
    session.wait(100_000)
    with pytest.raises(UserError, match="beat 32768 is outside the monitor's image of 16000 bytes"):
        session.run()


def test_waiting_without_the_interrupt_looks_at_the_status(program):
    session = Session(program, MEMORY)
    copy(session)
    session.write(ENABLE, 0)
    session.wait(100, strict=False)
    session.wait(100_000)
    session.read(SIGNATURE)
    result = session.run()
    assert [wait["ended"] for wait in result["waits"]] == ["timeout", "idle"]
    assert result["reads"][0]["value"] == 0xC0B1E500


def test_a_reset_in_the_middle_of_a_job(program):
    session = Session(program, MEMORY, Dram.stressed())
    copy(session)
    session.cycles(700)
    session.reset(16)
    session.read(STATUS)
    session.load(0, MEMORY)
    copy(session)
    session.wait(100_000)
    session.dump(0, MEMORY.size, "memory")
    result = session.run()
    assert result["reads"][0]["value"] == 0
    np.testing.assert_array_equal(result["dumps"]["memory"], expected())


def test_a_build_is_cached(program, monkeypatch):
    made = program.stat().st_ino
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", None)
        assert build(VERILOG, "memcopy", 1) == program
    assert program.stat().st_ino == made


@pytest.mark.slow
def test_a_new_build_needs_no_perl(program, monkeypatch, tmp_path):
    # a compiler that leaves a trace when called
    (tmp_path / "perl").write_text("#!/bin/sh\ntouch used\nexit 1\n")
    (tmp_path / "perl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("FABTUNE_CACHE", str(tmp_path / "with space"))
    other = build(VERILOG, "memcopy", 1, waves="vcd")
    assert other.name != program.name
    session = Session(other, MEMORY)
    session.waves(tmp_path / "waves.vcd")
    copy(session, count=20)
    session.wait(10_000)
    session.run()
    assert "m_axi_gmem0_rdata" in (tmp_path / "waves.vcd").read_text()


def test_refusals(program, monkeypatch, tmp_path):
    with pytest.raises(UserError, match="ports = 4"):
        build(VERILOG, "memcopy", 4)
    with pytest.raises(UserError, match=r"verilator could not read memcopy: .*memcopy.v"):
        build("module memcopy(; endmodule", "memcopy", 1)
    with pytest.raises(UserError, match=r"could not be compiled: .*error"):
        build("module memcopy(input aclk); endmodule", "memcopy", 1)
    with pytest.raises(UserError, match="latency = 0"):
        Dram(latency=0)
    with pytest.raises(UserError, match=r"duty = 1.5 is not in 0 to 1"):
        Dram(duty=1.5)
    with pytest.raises(UserError, match="outstanding = 65"):
        Dram(outstanding=65)
    with pytest.raises(UserError, match="freeze_cycles = 0"):
        Dram(freeze_cycles=0)
    with pytest.raises(UserError, match="aw_order = 'last' is none of any, with_w, behind_w"):
        Dram(aw_order="last")
    session = Session(program)
    with pytest.raises(UserError, match="call shadow first"):
        session.trace()
    with pytest.raises(UserError, match="fault 'both'"):
        session.fault("both", 0, 1, "slverr")
    with pytest.raises(UserError, match="fault 'both'"):
        session.fault_in("both", 0, 1, "slverr")
    session.dump(4000, 100, "tail")
    with pytest.raises(UserError, match="two dumps"):
        session.dump(0, 1, "tail")
    with pytest.raises(UserError, match="dump: 100 bytes at 0xfa0 leave a memory of 4096"):
        session.run()
    with pytest.raises(UserError, match="cannot be run"):
        Session(tmp_path / "nothing").run()
    with pytest.raises(UserError, match="give 1 to 1099511627776"):
        Session(program, 0)
    monkeypatch.setattr(build_module.shutil, "which", lambda *_, **__: None)
    with pytest.raises(UserError, match=r"needs g.. and make: apt install"):
        build(VERILOG + "\n", "memcopy", 1)


def test_a_run_that_takes_too_long_is_given_up(program):
    session = Session(program)
    session.cycles(1 << 40)
    with pytest.raises(UserError, match=r"not done after 0.3 s"):
        session.run(timeout=0.3)


def test_a_process_ends_with_its_session(program):
    session = Session(program)
    session.run()
    process, folder = session._simulator._process, session._simulator.folder
    assert process.poll() is None
    del session
    assert process.poll() is not None
    assert not folder.exists()


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_fault_comes_with_one_beat(program, kind):
    session = Session(program, MEMORY)
    session.fault_in(kind, 0, 500, "slverr")
    copy(session)
    session.wait(100_000)
    session.read(STATUS)
    copy(session)
    session.wait(100_000)
    session.read(STATUS)
    result = session.run()
    first, second = (read["value"] for read in result["reads"])
    assert (first >> 8, second) == (8 if kind == "read" else 10, 2)
    start = 0x0100 if kind == "read" else 0x8040
    (bad,) = result["bad_responses"]
    assert (bad["kind"], bad["port"], bad["response"]) == (kind, 0, "slverr")
    assert bad["address"] <= start + 16 * 499 < bad["address"] + 256


def test_a_fault_that_is_taken_back_does_not_come(program):
    session = Session(program, MEMORY)
    session.fault_in("read", 0, 500, "slverr")
    session.no_faults()
    copy(session)
    session.wait(100_000)
    session.read(STATUS)
    result = session.run()
    assert (result["reads"][0]["value"], result["bad_responses"]) == (2, [])


@pytest.mark.parametrize(
    "dram",
    [
        Dram(4, 0, 1.0, freeze=0.01, freeze_cycles=300),
        Dram(4, 0, 1.0, greedy=True),
        Dram(4, 0, 1.0, aw_order="with_w"),
        Dram(4, 0, 1.0, aw_order="behind_w"),
        Dram(1000, 1000, 0.1, outstanding=1),
        Dram(probe=True),
    ],
)
@pytest.mark.parametrize("ports", [1, 2])
def test_every_byte_arrives_on_a_hostile_bus(dram, ports, request):
    program = request.getfixturevalue("program_with_two_ports" if ports == 2 else "program")
    calm = copied(program, Dram(4, 0, 1.0))[0]["cycles"]
    result, memory = copied(program, dram, seed=1)
    np.testing.assert_array_equal(memory, expected())
    assert result["cycles"] > calm


def test_a_memory_that_is_held_by_one_moves_one_beat_at_a_time(program_with_two_ports):
    ports = copied(program_with_two_ports, Dram(4, 0, 1.0, greedy=True))[0]["ports"]
    assert sum(port["use"] for port in ports) < 1


def test_answers_in_a_reset(program):
    session = Session(program, MEMORY, Dram(latency=30, late_answers=True))
    copy(session)
    session.cycles(500)
    session.run()
    session.reset(100)
    before = session.run()["ports"][0]["read_beats"]
    session.read(STATUS)
    session.load(0, MEMORY)
    copy(session)
    session.wait(100_000)
    session.dump(0, MEMORY.size, "memory")
    result = session.run()
    assert result["reads"][0]["value"] == 0
    assert result["ports"][0]["read_beats"] == before + 1000
    np.testing.assert_array_equal(result["dumps"]["memory"], expected())
