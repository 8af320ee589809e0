"""Chunked reads: commands of images of any size, compared with slices of the image."""

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from fabtune.golden.axi.bus import ADDRESS_BITS, BEAT
from fabtune.hw.axi.bursts import command
from fabtune.hw.axi.chunked_read import CHUNK, ChunkedRead

from ..play import play_interface


class Reader(wiring.Component):
    """Offers the commands of images in sequence."""

    def __init__(self, beats):
        self.beats = beats
        super().__init__(
            {"begin": In(1), "address": In(ADDRESS_BITS), "command": Out(command(ADDRESS_BITS)), "further": Out(1)}
        )

    def elaborate(self, platform):
        m = Module()
        chunks = ChunkedRead(self.beats, self.command.payload.address)
        m.d.comb += [
            self.command.payload.address.eq(chunks.address),
            self.command.payload.beats.eq(chunks.beats),
            self.further.eq(chunks.further),
        ]
        with m.If(self.begin):
            chunks.begin(m, self.address, self.beats)
        with m.Elif(self.command.ready):
            chunks.advance(m)
        return m


@pytest.mark.parametrize("beats", [1, CHUNK, 2 * CHUNK - 1, 2 * CHUNK, 2 * CHUNK + 1, 3 * CHUNK])
def test_commands_are_all_of_an_image(beats):
    images, found = (0x4_5670, (1 << ADDRESS_BITS) - BEAT * beats), []

    async def body(bench):
        for address in images:
            await bench.pulse("begin", address=address)
            bench.set({"command.ready": 1})
            further = True
            while further:
                further, payload = bench.get("further"), bench.get("command.payload")
                found.append((payload["address"], payload["beats"]))
                await bench.tick()
            bench.set({"command.ready": 0})

    play_interface(Reader(beats), body=body)
    # a counted image is read by one command
    size = beats if beats < 2 * CHUNK else CHUNK
    expected = [
        (address + BEAT * first, min(size, beats - first)) for address in images for first in range(0, beats, size)
    ]
    assert found == expected
