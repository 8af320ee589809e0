"""Arbiters: commands by rank, responses to their requester in order, beats after their command."""

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from fabtune.golden.axi.bus import ADDRESS_BITS
from fabtune.hw.axi.arbiter import ReadArbiter, WriteArbiter
from fabtune.hw.axi.axi_read import beats_read
from fabtune.hw.axi.bursts import command

from ..play import play_interface
from ..simulation import simulate

NAMES = ["first", "second", "third"]


class Flat(wiring.Component):
    """An arbiter with the requesters' streams as ports, to be driven by name."""

    def __init__(self, kind, half):
        self.arbiter, self.half = kind(NAMES), half
        beats = stream.Signature(128)
        flow = Out if half == "read" else In
        ports = {f"{name}_command": In(command(ADDRESS_BITS)) for name in NAMES}
        ports |= {f"{name}_beats": flow(beats) for name in NAMES}
        own = {
            "command": Out(command(ADDRESS_BITS)),
            **({"i": In(beats_read(128))} if half == "read" else {"o": Out(beats)}),
        }
        super().__init__(ports | own)

    def elaborate(self, platform):
        m = Module()
        m.submodules.arbiter = self.arbiter
        for name in NAMES:
            port, beats = getattr(self.arbiter, f"{name}_{self.half}"), wiring.flipped(getattr(self, f"{name}_beats"))
            wiring.connect(m, wiring.flipped(getattr(self, f"{name}_command")), port.command)
            wiring.connect(m, port.beats, beats)
        wiring.connect(m, self.arbiter.command, wiring.flipped(self.command))
        if self.half == "read":
            wiring.connect(m, wiring.flipped(self.i), self.arbiter.i)
        else:
            wiring.connect(m, self.arbiter.o, wiring.flipped(self.o))
        return m


def asked(rank, count):
    """Commands of a requester, with its rank in the address."""
    return [{"address": (rank + 1) << 20 | 16 * at, "beats": 1 + (at + rank) % 4} for at in range(count)]


def wanted(one):
    """Beats of a command, with the command's address and the beat number."""
    return [one["address"] << 8 | at for at in range(one["beats"])]


def beats_of(commands):
    return [beat for one in commands for beat in wanted(one)]


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_beats_come_back_to_their_requester_in_order(stall):
    """The memory answers commands in order, after random delays."""
    dut, rng = Flat(ReadArbiter, "read"), np.random.default_rng(7)
    commands = {name: asked(rank, 12) for rank, name in enumerate(NAMES)}
    left = {name: list(words) for name, words in commands.items()}
    found = {name: [] for name in NAMES}
    answers, served = [], []

    async def bench(ctx):
        offered = dict.fromkeys(NAMES, False)
        i_valid = False
        for _ in range(2000):
            for name in NAMES:
                port = getattr(dut, f"{name}_command")
                if left[name] and not offered[name] and rng.random() >= stall:
                    offered[name] = True
                    ctx.set(port.payload, left[name][0])
                ctx.set(port.valid, offered[name])
                ctx.set(getattr(dut, f"{name}_beats").ready, rng.random() >= stall)
            ctx.set(dut.command.ready, rng.random() >= stall)
            if not i_valid and answers and rng.random() >= stall:
                i_valid = True
                ctx.set(dut.i.payload, {"data": answers[0][0], "last": answers[0][1]})
            ctx.set(dut.i.valid, i_valid)
            ready = [getattr(dut, f"{name}_command").ready for name in NAMES]
            beats = [getattr(dut, f"{name}_beats") for name in NAMES]
            signals = [dut.command.valid, dut.command.ready, dut.command.payload, dut.i.ready, *ready]
            signals += [signal for port in beats for signal in (port.valid, port.ready, port.payload)]
            valid, accepted, payload, i_ready, *rest = (await ctx.tick().sample(*signals))[2:]
            taken = [offered[name] and bool(rest[rank]) for rank, name in enumerate(NAMES)]
            assert sum(taken) == (valid and accepted), "a command is accepted when it is passed on, one at a time"
            for rank, name in enumerate(NAMES):
                if taken[rank]:
                    assert not any(offered[other] for other in NAMES[:rank]), "one of higher rank waits"
                    one = left[name].pop(0)
                    assert {"address": payload.address, "beats": payload.beats} == one
                    served.append(name)
                    answers.extend((beat, at == one["beats"] - 1) for at, beat in enumerate(wanted(one)))
            for name, was_taken in zip(NAMES, taken, strict=True):
                offered[name] = offered[name] and not was_taken
            transfers = [rest[3 + 3 * rank : 6 + 3 * rank] for rank in range(3)]
            assert sum(1 for port in transfers if port[0]) <= 1
            for name, (port_valid, port_ready, beat) in zip(NAMES, transfers, strict=True):
                if port_valid and port_ready:
                    found[name].append(beat)
            if i_valid and i_ready:
                answers.pop(0)
                i_valid = False
            if not any(left.values()) and not any(offered.values()) and not answers:
                return
        raise AssertionError("commands or beats are left")

    simulate(dut, bench)
    assert found == {name: beats_of(words) for name, words in commands.items()}
    if not stall:
        assert served == [name for name in NAMES for _ in range(12)], "fixed priority"


def test_commands_are_held_back_while_seventeen_wait_for_beats():
    dut = ReadArbiter(["only"])

    async def bench(ctx):
        port = dut.only_read
        ctx.set(port.command.payload, {"address": 0, "beats": 1})
        ctx.set(port.command.valid, 1)
        ctx.set(dut.command.ready, 1)
        count = 0
        for _ in range(40):
            count += (await ctx.tick().sample(port.command.ready))[2]
        assert count == 17
        assert not ctx.get(dut.command.valid)
        ctx.set(port.beats.ready, 1)
        ctx.set(dut.i.valid, 1)
        ctx.set(dut.i.payload, {"data": 5, "last": 1})
        assert ctx.get(port.beats.payload) == 5
        await ctx.tick()
        ctx.set(dut.i.valid, 0)
        await ctx.tick().repeat(2)
        assert not ctx.get(port.command.ready), "the one that was answered made room for one more, which is given"

    simulate(dut, bench)


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_beats_follow_their_command_and_commands_do_not_mix(stall):
    commands = {name: asked(rank, 8) for rank, name in enumerate(NAMES)}
    sources = {f"{name}_command": words for name, words in commands.items()}
    sources |= {f"{name}_beats": beats_of(words) for name, words in commands.items()}
    total = sum(len(beats_of(words)) for words in commands.values())
    # a command of higher rank replaces a waiting command
    seen = play_interface(
        Flat(WriteArbiter, "write"), sources, {"command": 24, "o": total}, stall=stall, unheld=["command"]
    )
    order = seen.words("command")
    assert seen.words("o") == beats_of(order)
    for name, words in commands.items():
        assert [one for one in order if one in words] == words, name
    if not stall:
        assert order == [one for words in commands.values() for one in words], "fixed priority"
        assert seen["o"][-1][0] + 1 == total + len(order), "a command takes a cycle beside its beats"


def test_idle_is_low_while_beats_are_missing():
    dut = WriteArbiter(["only"])

    async def bench(ctx):
        port = dut.only_write
        assert ctx.get(dut.idle)
        ctx.set(port.command.payload, {"address": 0, "beats": 2})
        ctx.set(port.command.valid, 1)
        ctx.set(dut.command.ready, 1)
        await ctx.tick()
        for _ in range(3):
            assert not ctx.get(dut.idle)
            assert not ctx.get(dut.command.valid), "the next command waits"
            await ctx.tick()
        ctx.set(port.command.valid, 0)
        ctx.set(port.beats.valid, 1)
        ctx.set(dut.o.ready, 1)
        await ctx.tick().repeat(2)
        assert ctx.get(dut.idle)
        assert not ctx.get(port.beats.ready)

    simulate(dut, bench)
