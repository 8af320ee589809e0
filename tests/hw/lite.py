"""AXI4-Lite managers for Amaranth simulator benches: accesses by offset, or by register name."""

import numpy as np

from fabtune.golden.axi.axi_registers import OKAY

ORDERS = {"both": ("aw w",), "aw": ("aw", "w"), "w": ("w", "aw")}
"""Order of a write's channels: groups offered together, in sequence."""


class Lite:
    """Accesses by offset, with random stalls.

    Parameters
    ----------
    ctx : SimulatorContext
    bus : interface of `Lite`, as its subordinate has it
    stall : float
        Stall probability per cycle before a channel is used.
    seed : int
        Seed of the stalls.
    """

    def __init__(self, ctx, bus, stall=0.0, seed=1):
        self.ctx, self.bus, self.stall, self.rng = ctx, bus, stall, np.random.default_rng(seed)

    async def tick(self, *signals):
        """Values of signals in a cycle."""
        return (await self.ctx.tick().sample(*signals))[2:]

    async def wait(self):
        """Stall."""
        while self.rng.random() < self.stall:
            await self.tick()

    async def send(self, *channels):
        """Offer all channels until each is taken; returns the cycles."""
        left, cycles = list(channels), 0
        for channel in left:
            self.ctx.set(channel.valid, 1)
        while left:
            readies = await self.tick(*(channel.ready for channel in left))
            cycles += 1
            for channel in [channel for channel, ready in zip(left, readies, strict=True) if ready]:
                self.ctx.set(channel.valid, 0)
                left.remove(channel)
        return cycles

    async def take(self, channel):
        """Take an answer."""
        await self.wait()
        self.ctx.set(channel.ready, 1)
        valid = False
        while not valid:
            valid, payload = await self.tick(channel.valid, channel.payload)
        self.ctx.set(channel.ready, 0)
        return payload

    async def post(self, offset, value, strobe=0xF, order="both"):
        """Write without waiting for the answer; returns the cycles until the write was taken.

        If answers are taken, the next write can follow at once. `order` is one of `ORDERS`.
        """
        self.ctx.set(self.bus.aw.payload.address, offset)
        self.ctx.set(self.bus.w.payload, {"data": value, "strobe": strobe})
        cycles = 0
        for channels in ORDERS[order]:
            await self.wait()
            cycles += await self.send(*(getattr(self.bus, channel) for channel in channels.split()))
        return cycles

    async def write(self, offset, value, strobe=0xF, order="both"):
        """Write, and wait for the response."""
        await self.post(offset, value, strobe, order)
        return (await self.take(self.bus.b)).response

    async def read(self, offset):
        """Data and response of a read."""
        self.ctx.set(self.bus.ar.payload.address, offset)
        await self.wait()
        await self.send(self.bus.ar)
        answer = await self.take(self.bus.r)
        return answer.data, answer.response


class LiteHost:
    """Accesses to a core's registers by name, at full speed; each must be answered OKAY.

    Parameters
    ----------
    ctx : SimulatorContext
    bus : interface of `Lite`, as its subordinate has it
    registers : RegisterMap
    """

    def __init__(self, ctx, bus, registers):
        self.lite, self.registers = Lite(ctx, bus), registers

    async def write(self, **values):
        """Write registers in sequence."""
        for name, value in values.items():
            assert await self.lite.write(self.registers[name].offset, value) == OKAY, name

    async def post(self, name, value, order="both"):
        """Write a register without waiting for the answer; returns the cycles until it was taken.

        Wait some cycles before a `write` or `read`, until the answer is gone and the register has its value. Two posts
        in a row are as close as the bus allows: the second is offered in the cycle after the first was taken.
        """
        self.lite.ctx.set(self.lite.bus.b.ready, 1)
        return await self.lite.post(self.registers[name].offset, value, order=order)

    async def read(self, name):
        value, response = await self.lite.read(self.registers[name].offset)
        assert response == OKAY, name
        return value

    async def status(self):
        """Fields of `status`: busy, done, error and error_code."""
        word = await self.read("status")
        return {item.name: item.of(word) for item in self.registers["status"].fields}
