"""Background benches for a component's ports: a memory, and a randomly ready port."""

import numpy as np

from .simulation import BEAT, beats_of


def willing(port, stall, seed=3):
    """Background bench for a port that is 0 in random cycles, else 1."""
    rng = np.random.default_rng(seed)

    async def bench(ctx):
        while True:
            ctx.set(port, rng.random() >= stall)
            await ctx.tick()

    return bench


class Memory:
    """Beats by byte address, on read ports, write ports and command streams.

    Parameters
    ----------
    stall : float
        Stall probability per cycle and stream.
    seed : int
        Seed of the stalls.

    Attributes
    ----------
    beats : dict of int to int
        Contents by byte address.
    reads, writes : list of (address, beats)
        Accepted commands in order.
    """

    def __init__(self, stall=0.0, seed=1):
        self.beats, self.reads, self.writes = {}, [], []
        self.stall, self.rng = stall, np.random.default_rng(seed)

    def load(self, address, image):
        """Store an image's bytes at an address."""
        self.beats |= {address + BEAT * at: beat for at, beat in enumerate(beats_of(image))}

    def willing(self):
        """True if this cycle has no stall."""
        return bool(self.rng.random() >= self.stall)

    def reader(self, command, beats=None):
        """Serve a stream of read commands; without a beat stream commands are only recorded."""

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
        """Serve a write port: beats are taken after their command."""

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
