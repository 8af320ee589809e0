"""Memory outside a core, on AXI4 ports."""

import numpy as np

from fabtune.hw.axi.bus import Response

from .simulation import beats_of

LATENCY = 20
"""Cycles from a burst to its first beat, or to its answer."""


def content(address):
    """Initial content of a beat."""
    return address // 16 * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128


class Outside:
    """A memory on AXI4 ports, with latency, stalls and bad responses by address.

    Attributes
    ----------
    written : dict of int to int
        Beats by address.
    ports : dict of int to int
        Number of beats per port.
    """

    def __init__(self, stall=0.0, bad=None):
        self.written, self.bad, self.stall = {}, bad or {}, stall
        self.ports, self.rng, self.outstanding = {}, np.random.default_rng(4), 0

    def load(self, address, image):
        """Store an image's bytes at an address."""
        self.written |= {address + 16 * at: beat for at, beat in enumerate(beats_of(image))}

    def image(self, address, size):
        """Bytes at an address; unwritten bytes are 0."""
        beats = range(address, address + size, 16)
        return np.frombuffer(b"".join(self.written.get(at, 0).to_bytes(16, "little") for at in beats), np.uint8)

    def willing(self):
        """True if this cycle has no stall."""
        return bool(self.rng.random() >= self.stall)

    def reader(self, number, bus):
        """Serve the read half of a port."""

        async def bench(ctx):
            queue, valid, now = [], False, 0
            while True:
                now += 1
                ready = self.willing()
                ctx.set(bus.ar.ready, ready)
                if queue and not valid and queue[0][0] <= now and self.willing():
                    valid = True
                    _, address, last = queue[0]
                    data = self.written.get(address, content(address))
                    response = self.bad.get(("read", address), Response.OKAY)
                    ctx.set(bus.r.payload, {"data": data, "response": response, "last": last})
                ctx.set(bus.r.valid, valid)
                *_, asked, burst, taken = await ctx.tick().sample(bus.ar.valid, bus.ar.payload, bus.r.ready)
                if valid and taken:
                    self.outstanding -= queue.pop(0)[2]
                    self.ports[number] = self.ports.get(number, 0) + 1
                    valid = False
                if asked and ready:
                    self.outstanding += 1
                    beats = range(burst.length + 1)
                    queue += [(now + LATENCY, burst.address + 16 * at, int(at == burst.length)) for at in beats]

        return bench

    def writer(self, number, bus):
        """Serve the write half of a port."""

        async def bench(ctx):
            bursts, beats, answers, valid, now = [], [], [], False, 0
            while True:
                now += 1
                ready = [self.willing(), self.willing()]
                ctx.set(bus.aw.ready, ready[0])
                ctx.set(bus.w.ready, ready[1])
                if answers and not valid and answers[0][0] <= now and self.willing():
                    valid = True
                    ctx.set(bus.b.payload.response, answers[0][1])
                ctx.set(bus.b.valid, valid)
                *_, aw, burst, w, beat = await ctx.tick().sample(
                    bus.aw.valid, bus.aw.payload, bus.w.valid, bus.w.payload
                )
                if valid:
                    answers.pop(0)
                    self.outstanding -= 1
                    valid = False
                if aw and ready[0]:
                    self.outstanding += 1
                    bursts.append(burst.address)
                if w and ready[1]:
                    beats.append(beat)
                    self.ports[number] = self.ports.get(number, 0) + 1
                # beats may arrive before their address
                while bursts and any(one.last for one in beats):
                    first = address = bursts.pop(0)
                    last = False
                    while not last:
                        self.written[address], last = beats[0].data, beats.pop(0).last
                        address += 16
                    answers.append((now + LATENCY, self.bad.get(("write", first), Response.OKAY)))

        return bench
