"""Memories and streams that are played around the components of a trainer, in Amaranth's simulator."""

import numpy as np
import pytest
from amaranth.sim import Simulator

LIMIT = 4_000
"""Cycles after which a bench fails."""
BEAT = 16


class Memory:
    """Beats by byte address, behind read ports, write ports and streams of commands.

    Parameters
    ----------
    seed : int
        Seed of the stalls.
    stall : float
        Probability, in each cycle and on each stream, that nothing moves.

    Attributes
    ----------
    beats : dict of int to int
        Contents, by byte address.
    reads, writes : list of (address, beats)
        Commands in the order in which they were accepted.
    """

    def __init__(self, stall=0.0, seed=1):
        self.beats, self.reads, self.writes = {}, [], []
        self.stall, self.rng = stall, np.random.default_rng(seed)

    def load(self, address, image):
        """Put the bytes of an image at an address."""
        data = np.asarray(image, np.uint8).tobytes()
        for at in range(0, len(data), BEAT):
            self.beats[address + at] = int.from_bytes(data[at : at + BEAT], "little")

    def willing(self):
        """Draw if something moves in this cycle."""
        return bool(self.rng.random() >= self.stall)

    def reader(self, command, beats=None):
        """Serve a stream of read commands; without a stream of beats the commands are only listed."""

        async def bench(ctx):
            queue, valid = [], False
            while True:
                ready = self.willing()
                ctx.set(command.ready, ready)
                if beats is not None:
                    if queue and not valid and self.willing():
                        valid = True
                        ctx.set(beats.payload, self.beats.get(queue[0], 0))
                    ctx.set(beats.valid, valid)
                    *_, asked, payload, taken = await ctx.tick().sample(command.valid, command.payload, beats.ready)
                else:
                    *_, asked, payload = await ctx.tick().sample(command.valid, command.payload)
                    taken = 0
                if valid and taken:
                    queue.pop(0)
                    valid = False
                if asked and ready:
                    self.reads.append((payload.address, payload.beats))
                    queue += [payload.address + BEAT * at for at in range(payload.beats)]

        return bench

    def writer(self, port):
        """Serve a write port: the beats of a command are taken once the command was."""

        async def bench(ctx):
            queue = []
            while True:
                command_ready, beat_ready = not queue and self.willing(), bool(queue) and self.willing()
                ctx.set(port.command.ready, command_ready)
                ctx.set(port.beats.ready, beat_ready)
                *_, asked, payload, valid, beat = await ctx.tick().sample(
                    port.command.valid, port.command.payload, port.beats.valid, port.beats.payload
                )
                if valid and beat_ready:
                    self.beats[queue.pop(0)] = beat
                if asked and command_ready:
                    self.writes.append((payload.address, payload.beats))
                    queue += [payload.address + BEAT * at for at in range(payload.beats)]

        return bench


@pytest.fixture(name="memory")
def _memory():
    """Make a memory: see `Memory`."""
    return Memory


@pytest.fixture(name="play")
def _play():
    """Simulate a design with benches in the background until ``body(ctx)`` returns, at most `LIMIT` cycles."""

    def play(dut, body, *background):
        simulator = Simulator(dut)
        simulator.add_clock(1e-8)
        over = False

        async def main(ctx):
            nonlocal over
            await body(ctx)
            over = True

        async def limit(ctx):
            for _ in range(LIMIT):
                await ctx.tick()
            assert over, f"not over after {LIMIT} cycles"

        simulator.add_testbench(main)
        simulator.add_testbench(limit, background=True)
        for bench in background:
            simulator.add_testbench(bench, background=True)
        simulator.run()

    return play
