"""Amaranth ports from a golden spec: one definition of every stream, in `Spec.streams`."""

from amaranth.hdl import Module, Shape, Signal, Value, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Member, Out

from ..golden.block import Field, Spec, Stream
from ..golden.fixed import Format


def members(spec: Spec) -> dict[str, Member]:
    """Ports of a block: a stream each, plain wires for a sideband."""
    return {name: member(port) for name, port in spec.streams().items()}


def member(port: Stream) -> Member:
    """One port."""
    flow = In if port.direction == "in" else Out
    shape = layout(port)
    return flow(shape) if port.follows else flow(stream.Signature(shape))


def layout(port: Stream) -> data.StructLayout:
    """A port's payload: its fields, the first lowest; several lanes make an array."""
    return data.StructLayout({item.name: _field(item) for item in port.fields})


def _field(item: Field) -> Shape | data.ArrayLayout:
    return shape(item.format) if item.lanes == 1 else data.ArrayLayout(shape(item.format), item.lanes)


def shape(number: Format) -> Shape:
    """Amaranth's shape of a fixed-point format."""
    return signed(number.width) if number.signed else unsigned(number.width)


def withheld(m: Module, load: wiring.PureInterface) -> Value:
    """Whether a load keeps the output back: from its first bit to the one marked last, gaps between them included."""
    loading = Signal()
    with m.If(load.valid):
        m.d.sync += loading.eq(~load.payload.last)
    return load.valid | loading


def elements(lanes: Value, item: Field) -> list[Value]:
    """The lanes of a field, whether it is an array or, with one lane, a plain number."""
    return [lanes] if item.lanes == 1 else [lanes[j] for j in range(item.lanes)]
