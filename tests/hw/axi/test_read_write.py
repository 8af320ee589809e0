# amaranth: UnusedElaboratable=no
"""AXI reads and writes against a memory with latency, stalls and bad responses; the protocol's rules are asserted."""

import re
from collections import deque
from dataclasses import dataclass, field

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator

from fabtune.boards.estimate.estimate import estimate_rtlil
from fabtune.golden.axi.axi_read import AxiReadSpec
from fabtune.golden.axi.axi_write import AxiWriteSpec
from fabtune.hw.axi import bus as axi
from fabtune.hw.axi.axi_read import AxiRead
from fabtune.hw.axi.axi_write import AxiWrite

BEAT, PAGE = 16, 4096
LIMIT = 20_000


def content(address):
    """What the memory holds before anything is written: every beat another number."""
    return address // BEAT * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128


@dataclass
class Run:
    """How a component is exercised, and what it did."""

    commands: list[tuple[int, int]]
    stall: float = 0.0
    latency: int = 3
    bad: dict[int, int] = field(default_factory=dict)
    """Response by address of a burst."""
    abort_at: int = -1
    cycles: int = 0
    deaf: bool = False
    """Whether no data is taken, neither `o` nor W."""
    seed: int = 1

    bursts: list[tuple[int, int]] = field(default_factory=list)
    issued: list[int] = field(default_factory=list)
    beats: list[tuple[int, int]] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    idle: list[int] = field(default_factory=list)
    written: dict[int, int] = field(default_factory=dict)
    error: int = 0
    error_address: int = 0
    answered: int = 0
    left: tuple[int, int] = (0, 0)
    """Commands and data that nobody took."""

    def __post_init__(self):
        self.rng = np.random.default_rng(self.seed)
        self.total = sum(beats for _, beats in self.commands)

    def chance(self):
        """Whether someone does not stall in this cycle."""
        return self.rng.random() >= self.stall

    def burst(self, cycle, address, length):
        """Note a burst and hold it against the rules."""
        size = (length + 1) * BEAT
        assert address % BEAT == 0
        assert address // PAGE == (address + size - 1) // PAGE, "crosses 4 KiB"
        self.bursts.append((address, length + 1))
        self.issued.append(cycle)

    def expected(self):
        """Addresses of the beats of all commands, and whether each is its command's last."""
        return [(at + BEAT * j, j == beats - 1) for at, beats in self.commands for j in range(beats)]


class Stable:
    """Valid is not retracted and the payload does not change before ready."""

    def __init__(self):
        self.before = None

    def look(self, valid, ready, payload, excused=False):
        """At a clock edge; whether there was a transfer."""
        if self.before is not None and not excused:
            assert valid, "retracted"
            assert payload == self.before, "changed"
        self.before = payload if valid and not ready else None
        return valid and ready


def simulate(dut, *benches):
    """Until every bench has returned."""
    simulator = Simulator(dut)
    simulator.add_clock(1e-8)
    for bench in benches:
        simulator.add_testbench(bench)
    simulator.run()


def read(dut, run):
    """Exercise an `AxiRead` until all beats have come, or for ``run.cycles``."""

    async def bench(ctx):
        bus, commands, arriving = dut.bus, deque(run.commands), deque()
        ar, o = Stable(), Stable()
        command_valid = r_valid = stopped = False
        for cycle in range(run.cycles or LIMIT):
            if not command_valid and commands and run.chance():
                command_valid = True
                ctx.set(dut.command.payload, dict(zip(("address", "beats"), commands[0], strict=True)))
            ctx.set(dut.command.valid, command_valid)
            ctx.set(bus.ar.ready, run.chance())
            ctx.set(dut.o.ready, run.chance() and not run.deaf)
            ctx.set(dut.stop, cycle == run.abort_at)
            if not r_valid and arriving and arriving[0][0] <= cycle and run.chance():
                r_valid = True
                _, address, response, last = arriving[0]
                ctx.set(bus.r.payload, {"data": content(address), "response": response, "last": last})
            ctx.set(bus.r.valid, r_valid)
            sample = await ctx.tick().sample(
                *(dut.command.ready, bus.ar.valid, bus.ar.ready, bus.ar.payload, bus.r.ready),
                *(dut.o.valid, dut.o.ready, dut.o.payload, dut.idle, dut.error, dut.error_address),
            )
            taken, ar_valid, ar_ready, burst, r_ready, o_valid, o_ready, beat, idle, error, where = sample[2:]
            assert r_ready
            stopped = stopped or bool(error) or 0 <= run.abort_at < cycle
            run.idle.append(idle)
            run.error, run.error_address = error, where
            if command_valid and taken:
                commands.popleft()
                command_valid = False
            if ar.look(ar_valid, ar_ready, (burst.address, burst.length)):
                run.burst(cycle, burst.address, burst.length)
                for j in range(burst.length + 1):
                    response = run.bad.get(burst.address, 0)
                    arriving.append((cycle + run.latency, burst.address + BEAT * j, response, int(j == burst.length)))
            if r_valid:
                r_valid = False
                run.answered += arriving.popleft()[3]
            if o.look(o_valid, o_ready, (beat.data, beat.last), stopped):
                assert not stopped
                run.beats.append((beat.data, beat.last))
                run.times.append(cycle)
                if len(run.beats) == run.total and not run.cycles:
                    return
        assert run.cycles, f"{len(run.beats)} of {run.total} beats after {LIMIT} cycles"

    simulate(dut, bench)
    return run


def write(dut, run, starve=0.0):
    """Exercise an `AxiWrite` with ``content(address)``, until it is idle with all written, or for ``run.cycles``."""

    async def bench(ctx):
        bus, commands, answers = dut.bus, deque(run.commands), deque()
        data = deque(content(address) for address, _ in run.expected())
        aw, w = Stable(), Stable()
        command_valid = i_valid = b_valid = False
        announced, received, bursts_written, inside = deque(), deque(), 0, False
        for cycle in range(run.cycles or LIMIT):
            if not command_valid and commands and run.chance():
                command_valid = True
                ctx.set(dut.command.payload, dict(zip(("address", "beats"), commands[0], strict=True)))
            if not i_valid and data and run.chance() and run.rng.random() >= starve:
                i_valid = True
                ctx.set(dut.i.payload.data, data[0])
            if not b_valid and answers and answers[0][0] <= cycle and run.chance():
                b_valid = True
                ctx.set(bus.b.payload.response, answers[0][1])
            ctx.set(dut.command.valid, command_valid)
            ctx.set(dut.i.valid, i_valid)
            ctx.set(bus.b.valid, b_valid)
            ctx.set(bus.aw.ready, run.chance())
            ctx.set(bus.w.ready, run.chance() and not run.deaf)
            ctx.set(dut.stop, cycle == run.abort_at)
            sample = await ctx.tick().sample(
                *(dut.command.ready, dut.i.ready, bus.aw.valid, bus.aw.ready, bus.aw.payload),
                *(bus.w.valid, bus.w.ready, bus.w.payload, bus.b.ready, dut.idle, dut.error, dut.error_address),
            )
            taken, i_ready, aw_valid, aw_ready, burst, w_valid, w_ready, beat, b_ready, idle, error, where = sample[2:]
            assert b_ready
            run.idle.append(idle)
            run.error, run.error_address = error, where
            if command_valid and taken:
                commands.popleft()
                command_valid = False
            if i_valid and i_ready:
                data.popleft()
                i_valid = False
            if b_valid:
                answers.popleft()
                run.answered += 1
                b_valid = False
            if aw.look(aw_valid, aw_ready, (burst.address, burst.length)):
                run.burst(cycle, burst.address, burst.length)
                announced.append((burst.address, burst.length + 1))
            assert w_valid or not inside, "stalls within a burst"
            if w.look(w_valid, w_ready, (beat.data, beat.strobe, beat.last)):
                assert beat.strobe == 0xFFFF
                received.append(beat.data)
                run.times.append(cycle)
                inside = not beat.last
                bursts_written += beat.last
                run.beats.append((beat.data, beat.last))
            while announced and len(received) >= announced[0][1] and bursts_written:
                address, beats = announced.popleft()
                for j in range(beats):
                    run.written[address + BEAT * j] = received.popleft()
                bursts_written -= 1
                answers.append((cycle + run.latency, run.bad.get(address, 0)))
            if idle and not run.cycles and not commands and not command_valid and not data and not i_valid:
                assert not announced
                assert not received
                assert run.answered == len(run.bursts)
                return
        run.left = len(commands), len(data)
        assert run.cycles, f"{len(run.beats)} of {run.total} beats after {LIMIT} cycles"

    simulate(dut, bench)
    return run


def commands(seed, count, longest):
    """Random ones, some from just below 4 KiB on."""
    rng = np.random.default_rng(seed)
    beats = rng.integers(1, longest + 1, count)
    places = rng.integers(0, 2**24, count)
    near = rng.random(count) < 0.3
    places = np.where(near, places // 256 * 256 + 256 - rng.integers(1, 20, count), places)
    return [(int(place) * BEAT, int(beat)) for place, beat in zip(places, beats, strict=True)]


def apart(seed, count, longest):
    """Commands that do not overlap."""
    rng = np.random.default_rng(seed)
    starts = rng.permutation(count) * (longest + 40) + rng.integers(0, 40, count)
    return [
        (int(start) * BEAT, int(beats))
        for start, beats in zip(starts, rng.integers(1, longest + 1, count), strict=True)
    ]


def addresses(run):
    """The address of every beat of every burst, in order."""
    return [at + BEAT * j for at, beats in run.bursts for j in range(beats)]


# -- reads -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize(("burst", "depth"), [(64, 512), (16, 32)])
def test_read_gives_what_the_memory_holds(stall, burst, depth):
    run = read(AxiRead(AxiReadSpec(burst=burst, depth=depth)), Run(commands(1, 40, 80), stall, latency=17))
    assert run.beats == [(content(address), last) for address, last in run.expected()]
    assert addresses(run) == [address for address, _ in run.expected()]
    assert max(beats for _, beats in run.bursts) <= burst
    assert run.error == 0


def test_read_of_many_beats():
    run = read(AxiRead(AxiReadSpec()), Run([(PAGE * 5 + 0x7F0, 1500)], latency=40))
    assert run.beats == [(content(address), last) for address, last in run.expected()]
    assert max(beats for _, beats in run.bursts) == 64


def test_read_hides_a_latency_of_200_cycles():
    run = read(
        AxiRead(AxiReadSpec()), Run([(place, 5 + beats % 61) for place, beats in commands(2, 60, 10_000)], latency=200)
    )
    assert run.times[-1] - run.times[0] + 1 == run.total


def test_read_of_five_beats_each_hides_a_latency_of_200_cycles():
    run = read(AxiRead(AxiReadSpec()), Run([(place, 5) for place, _ in commands(3, 200, 5)], latency=200))
    assert run.times[-1] - run.times[0] + 1 == run.total == 1000


def test_read_latency_is_what_the_class_says():
    run = read(AxiRead(AxiReadSpec()), Run([(0, 1)], latency=10))
    assert run.issued == [3]
    assert run.times == [3 + 10 + 3]


def test_read_reserves_room_before_it_asks():
    """Where nobody takes anything no more is asked for than fits."""
    run = read(AxiRead(AxiReadSpec(burst=16, depth=64)), Run([(0, 1000)], cycles=300, deaf=True))
    assert run.bursts == [(0, 16), (256, 16), (512, 16), (768, 16)]
    assert run.answered == 4


@pytest.mark.parametrize(("response", "burst"), [(2, 0), (3, 4)])
def test_read_stops_at_a_bad_response(response, burst):
    asked = [(PAGE * j + 0x400, 40) for j in range(20)]
    bad = {asked[burst][0]: response, asked[burst + 2][0]: 5 - response}
    run = read(AxiRead(AxiReadSpec()), Run(asked, latency=20, bad=bad, cycles=900))
    assert (run.error, run.error_address) == (response, asked[burst][0])
    assert run.idle[-1]
    assert run.answered == len(run.bursts) < len(asked)
    before = run.expected()[: 40 * burst]
    assert run.beats == [(content(address), last) for address, last in before][: len(run.beats)]


def test_read_takes_exokay_for_good():
    run = read(AxiRead(AxiReadSpec()), Run([(0x100, 8)], bad={0x100: 1}))
    assert run.error == 0


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("abort_at", [0, 7, 60, 61, 62, 63])
def test_read_ends_idle_after_abort(stall, abort_at):
    run = read(AxiRead(AxiReadSpec()), Run(commands(4, 30, 80), stall, latency=30, abort_at=abort_at, cycles=1500))
    assert run.idle[-1]
    assert run.answered == len(run.bursts)
    if not stall:
        assert all(cycle <= abort_at for cycle in run.issued)
    assert run.error == 0


def test_read_issues_nothing_in_the_cycle_of_abort():
    asked = commands(7, 10, 60)
    fourth = read(AxiRead(AxiReadSpec()), Run(asked)).issued[3]
    assert len(read(AxiRead(AxiReadSpec()), Run(asked, abort_at=fourth, cycles=300)).bursts) == 4
    assert len(read(AxiRead(AxiReadSpec()), Run(asked, abort_at=fourth - 1, cycles=300)).bursts) == 3


# -- writes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stall", "starve"), [(0.0, 0.0), (0.5, 0.0), (0.1, 0.8)])
@pytest.mark.parametrize("shape", [{}, {"burst": 64}, {"burst": 4, "depth": 8, "outstanding": 2}])
def test_write_gives_the_memory_what_it_was_given(stall, starve, shape):
    run = write(AxiWrite(AxiWriteSpec(**shape)), Run(apart(5, 30, 90), stall, latency=9), starve)
    assert run.written == {address: content(address) for address, _ in run.expected()}
    assert addresses(run) == [address for address, _ in run.expected()]
    assert max(beats for _, beats in run.bursts) <= shape.get("burst", 16)
    assert run.error == 0


@pytest.mark.parametrize(("offset", "wait"), [(0, 0), (8, 16)])
def test_write_runs_at_a_beat_a_cycle(offset, wait):
    """Where short bursts come before long ones, what was sent early must wait for data, once and not each time."""
    run = write(AxiWrite(AxiWriteSpec()), Run([(PAGE * j + offset * BEAT, 64) for j in range(20)], latency=100))
    assert run.total <= run.times[-1] - run.times[0] + 1 <= run.total + wait


def test_write_latency_is_what_the_class_says():
    run = write(AxiWrite(AxiWriteSpec()), Run([(0, 8)], latency=10))
    last_entered = 7
    assert run.issued == [last_entered + 2]
    assert run.times[0] == last_entered + 3


@pytest.mark.parametrize(("response", "burst"), [(2, 0), (3, 4)])
def test_write_stops_at_a_bad_response(response, burst):
    asked = [(PAGE * j + 0x100, 16) for j in range(20)]
    bad = {asked[burst][0]: response, asked[burst + 2][0]: 5 - response}
    run = write(AxiWrite(AxiWriteSpec()), Run(asked, latency=20, bad=bad, cycles=900))
    assert (run.error, run.error_address) == (response, asked[burst][0])
    assert run.idle[-1]
    assert run.answered == len(run.bursts) == sum(last for _, last in run.beats) < len(asked)


@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("abort_at", [0, 9, 20, 60, 61, 62, 63, 64])
def test_write_ends_idle_after_abort(stall, abort_at):
    run = write(AxiWrite(AxiWriteSpec()), Run(apart(6, 30, 80), stall, latency=30, abort_at=abort_at, cycles=1500))
    assert run.idle[-1]
    assert run.answered == len(run.bursts) == sum(last for _, last in run.beats)
    assert addresses(run) == [address for address, _ in run.expected()][: len(run.beats)]
    if not stall:
        assert all(cycle <= abort_at for cycle in run.issued)


def test_write_issues_nothing_in_the_cycle_of_abort():
    asked = apart(7, 10, 60)
    fourth = write(AxiWrite(AxiWriteSpec()), Run(asked)).issued[3]
    assert len(write(AxiWrite(AxiWriteSpec()), Run(asked, abort_at=fourth, cycles=300)).bursts) == 4
    assert len(write(AxiWrite(AxiWriteSpec()), Run(asked, abort_at=fourth - 1, cycles=300)).bursts) == 3


def test_write_takes_and_drops_once_stopped():
    """Also where the FIFO is full, as nobody takes its data."""
    asked = [(PAGE * j, 64) for j in range(10)]
    assert write(AxiWrite(AxiWriteSpec()), Run(asked, deaf=True, cycles=800)).left == (9, 640 - 128 - 1)
    assert write(AxiWrite(AxiWriteSpec()), Run(asked, deaf=True, abort_at=150, cycles=800)).left == (0, 0)


# -- parts -------------------------------------------------------------------------------------------------------------


class Managers(wiring.Component):
    """One of each, as the edge of a core sees them."""

    read: Out(axi.Read())
    write: Out(axi.Write())
    control: In(axi.Lite())

    def elaborate(self, platform):
        return Module()


class Edge(wiring.Component):
    """Their pins."""

    def __init__(self):
        self.managers = Managers()
        self.pins = axi.pins(self.managers.read, "m_axi_gmem0") + axi.pins(self.managers.write, "m_axi_gmem0")
        self.pins += axi.pins(self.managers.control, "s_axi_control")
        super().__init__(axi.members(self.pins))

    def elaborate(self, platform):
        m = Module()
        m.submodules.managers = self.managers
        axi.wire_up(m, self.pins, {pin.name: getattr(self, pin.name) for pin in self.pins})
        return m


def test_pins_have_conventional_names():
    edge = Edge()
    pins = edge.pins
    full = "awid awaddr awlen awsize awburst awcache awprot awvalid awready wdata wstrb wlast wvalid wready bid bresp "
    full += "bvalid bready arid araddr arlen arsize arburst arcache arprot arvalid arready rid rdata rresp rlast rvalid"
    lite = "awaddr awvalid awready wdata wstrb wvalid wready bresp bvalid bready araddr arvalid arready rdata rresp"
    expected = {f"m_axi_gmem0_{name}" for name in f"{full} rready".split()}
    expected |= {f"s_axi_control_{name}" for name in f"{lite} rvalid rready".split()}
    assert {pin.name for pin in pins} == expected
    assert len(pins) == len(expected)
    by_name = {pin.name.rpartition("_")[2]: pin for pin in pins if pin.name.startswith("m_axi")}
    same = {"id": 0, "size": 4, "burst": 1, "cache": 3, "prot": 0}
    constants = {name: pin.value for name, pin in by_name.items() if isinstance(pin.value, int)}
    assert constants == {channel + name: value for channel in ("ar", "aw") for name, value in same.items()}
    assert {name for name, pin in by_name.items() if pin.value is None} == {"bid", "rid"}
    ins = {"awready", "wready", "bid", "bresp", "bvalid", "arready", "rid", "rdata", "rresp", "rlast", "rvalid"}
    assert {name for name, pin in by_name.items() if pin.direction == "in"} == ins
    assert {by_name[name].width for name in ("rdata", "wdata")} == {128}
    assert (by_name["wstrb"].width, by_name["araddr"].width, by_name["arlen"].width) == (16, 32, 8)
    subordinate = {pin.name: pin for pin in pins if pin.name.startswith("s_axi")}
    assert subordinate["s_axi_control_awaddr"].direction == "in"
    assert subordinate["s_axi_control_awaddr"].width == 8
    assert subordinate["s_axi_control_rdata"].direction == "out"
    text = rtlil.convert(edge, name="top", emit_src=False)
    for pin in pins:
        assert re.search(rf"wire width {pin.width} {pin.direction}put \d+  \\{pin.name}\n", text), pin
    assert "connect \\m_axi_gmem0_arsize 3'100\n" in text
    assert re.search(r"connect \\control__aw__payload \\s_axi_control_awaddr \[7:0\]", text)


@pytest.mark.parametrize("wrong", [{"burst": 48}, {"burst": 512}, {"depth": 64}, {"depth": 500}])
def test_wrong_sizes_are_refused(wrong):
    for kind in (AxiReadSpec, AxiWriteSpec):
        with pytest.raises(ValueError, match="power of two"):
            kind(**{"burst": 64, **wrong})


@pytest.mark.parametrize(("kind", "spec"), [(AxiRead, AxiReadSpec()), (AxiWrite, AxiWriteSpec())])
def test_paths_are_short(kind, spec):
    estimate = estimate_rtlil(rtlil.convert(kind(spec), name="top", emit_src=False), "top")
    assert estimate.logic_levels <= 4
    assert estimate.carry_cells <= 6
    assert estimate.resources["bram36"] == {AxiRead: 2.5, AxiWrite: 2}[kind]
