"""Reads of command images and of samples through one memory port."""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring

from ..axi.chunked_read import ChunkedRead


class Image(NamedTuple):
    """An image that a command reads.

    Parameters
    ----------
    command : IntEnum
    address : Value
        Byte address; stable from before the command to its end.
    beats : int or Value
        Beats of the image. A value is as stable as `address` and at most as wide as a command's beat count.
    into : stream of beats
        Destination.
    done : Value
        The destination has stored the image; one cycle.
    """

    command: IntEnum
    address: Value
    beats: int | Value
    into: stream.Interface
    done: Value

    @property
    def most(self) -> int:
        """Most beats of the image."""
        return self.beats if isinstance(self.beats, int) else (1 << len(self.beats)) - 1


class ImageReads:
    """Reads the command's image while `transferring` is high, otherwise samples; a beat every other cycle.

    Its registers belong to the trainer's module.

    Parameters
    ----------
    images : sequence of Image
        At most one for each command.
    command : Value
        Command in progress.
    port : ReadPort
        Port to the memory.
    samples : stream of `hw.axi.bursts.command`
        Read commands of samples.

    Attributes
    ----------
    transferring : Signal
        The command's image is read; set and cleared by the trainer.
    requested : Signal
        Read commands of the image are offered; set and cleared by the trainer.
    accepted : Value
        The last read command of the image is accepted in this cycle.
    transferred : Signal
        The destination has stored the image; one cycle.
    """

    def __init__(
        self, images: Sequence[Image], command: Value, port: wiring.PureInterface, samples: stream.Interface
    ) -> None:
        self._images, self._command, self._port, self._samples = images, command, port, samples
        self._chunks = ChunkedRead(max(image.most for image in images), port.command.payload.address)
        self.transferring, self.requested, self.transferred = (
            Signal(name=name) for name in ("transferring", "requested", "transferred")
        )
        self.accepted = port.command.ready & ~self._chunks.further

    def connect(self, m: Module, beats: stream.Interface) -> None:
        """Connect the port to the images' destinations and to the sample stream `beats`."""
        image, chunks, selected = self._port, self._chunks, Signal(len(self._images))
        m.d.sync += [
            selected.eq(Cat(self.transferring & (self._command == each.command) for each in self._images)),
            self.transferred.eq(Cat(each.done for each in self._images).any()),
        ]
        with m.If(self.transferring), m.If(chunks.further & image.command.valid & image.command.ready):
            chunks.advance(m)
        with m.Else(), m.Switch(self._command):
            for each in self._images:
                with m.Case(each.command):
                    chunks.begin(m, each.address, each.beats)
        m.d.comb += [
            image.command.payload.address.eq(Mux(self.transferring, chunks.address, self._samples.payload.address)),
            image.command.payload.beats.eq(Mux(self.transferring, chunks.beats, self._samples.payload.beats)),
            self._samples.ready.eq(image.command.ready & ~self.transferring),
        ]
        receivers = [(each.into, selected[number]) for number, each in enumerate(self._images)]
        receivers.append((beats, ~self.transferring))
        # a registered ready cuts the long paths through arbiter and reader; half the beats' rate is enough
        ready = Signal()
        m.d.comb += image.beats.ready.eq(ready)
        wanted = Cat(into.ready & chosen for into, chosen in receivers).any()
        m.d.sync += ready.eq(wanted & ~(image.beats.valid & ready))
        for into, chosen in receivers:
            m.d.comb += [into.valid.eq(image.beats.valid & ready & chosen), into.payload.eq(image.beats.payload)]

    def offer(self, m: Module) -> None:
        """Drive the valid of the port's read commands."""
        # a command reads no samples while it reads its image
        m.d.comb += self._port.command.valid.eq(self.requested | self._samples.valid)
