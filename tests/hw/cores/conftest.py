"""A host on AXI4-Lite for benches in Amaranth's simulator."""

import pytest


class LiteHost:
    """Accesses to a core's registers by name, at full speed.

    Parameters
    ----------
    ctx : SimulatorContext
    bus : interface of `Lite`, as its subordinate has it
    registers : RegisterMap
    """

    def __init__(self, ctx, bus, registers):
        self.ctx, self.bus, self.registers = ctx, bus, registers

    async def write(self, **values):
        """Write registers one after the other; each must be answered OKAY."""
        ctx, bus = self.ctx, self.bus
        for name, value in values.items():
            ctx.set(bus.aw.payload.address, self.registers[name].offset)
            ctx.set(bus.w.payload, {"data": value, "strobe": 0xF})
            for channel in (bus.aw, bus.w):
                ctx.set(channel.valid, 1)
            ctx.set(bus.b.ready, 1)
            await ctx.tick()
            for channel in (bus.aw, bus.w):
                ctx.set(channel.valid, 0)
            answer = (await ctx.tick().sample(bus.b.payload.response).until(bus.b.valid))[0]
            assert answer == 0, f"{name}: response {answer}"

    async def post(self, name, value, order="both"):
        """Write a register without waiting for the answer; returns after how many cycles it was taken.

        Let some cycles pass before a `write` or `read`, so that the answer is gone and the register has its value.
        Two in a row are as close as the bus allows: the second is offered in the cycle after the first was taken.
        `order`: address and data at once ("both"), or the address ("aw") or the data ("w") before the other.
        """
        ctx, bus = self.ctx, self.bus
        ctx.set(bus.aw.payload.address, self.registers[name].offset)
        ctx.set(bus.w.payload, {"data": value, "strobe": 0xF})
        ctx.set(bus.b.ready, 1)
        cycles = 0
        for offered in {"both": [(bus.aw, bus.w)], "aw": [(bus.aw,), (bus.w,)], "w": [(bus.w,), (bus.aw,)]}[order]:
            left = list(offered)
            for channel in left:
                ctx.set(channel.valid, 1)
            while left:
                taken = (await ctx.tick().sample(*(channel.ready for channel in left)))[2:]
                cycles += 1
                for channel in [channel for channel, ready in zip(left, taken, strict=True) if ready]:
                    ctx.set(channel.valid, 0)
                    left.remove(channel)
        return cycles

    async def read(self, name):
        """Read a register."""
        ctx, bus = self.ctx, self.bus
        ctx.set(bus.ar.payload.address, self.registers[name].offset)
        ctx.set(bus.ar.valid, 1)
        ctx.set(bus.r.ready, 1)
        await ctx.tick()
        ctx.set(bus.ar.valid, 0)
        return (await ctx.tick().sample(bus.r.payload.data).until(bus.r.valid))[0]

    async def status(self):
        """Read `status` apart: busy, done, error and error_code."""
        word = await self.read("status")
        return {item.name: item.of(word) for item in self.registers["status"].fields}


@pytest.fixture(name="lite_host")
def _lite_host():
    """Make a host: see `LiteHost`."""
    return LiteHost
