"""Amaranth ports from the streams of a golden spec."""

from amaranth.hdl import Module, Shape, Signal, Value, signed, unsigned
from amaranth.hdl._ast import Slice
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Member, Out

from ..golden.block import Field, Spec, Stream
from ..golden.fixed import Format


class PlainSignature(wiring.Signature):
    """Signature with wires named by member only, as if each member was a port of the component.

    In waveforms and Verilog a wire is `sequencer_address`, not `sequencer_word__address`. Member names must be unique
    among the component's interfaces.
    """

    def create(self, *, path: tuple[str | int, ...] | None = None, src_loc_at: int = 0) -> wiring.PureInterface:
        """Create the interface without the last part of `path`, the interface's name."""
        return super().create(path=path and path[:-1], src_loc_at=1 + src_loc_at)


def members(spec: Spec) -> dict[str, Member]:
    """Ports of a block by name: a stream interface for each stream of the spec, a plain payload for each sideband."""
    return {name: member(port) for name, port in spec.streams().items()}


def member(port: Stream) -> Member:
    """Port of a stream or sideband, with its direction."""
    flow = In if port.direction == "in" else Out
    shape = layout(port)
    return flow(shape) if port.follows else flow(stream.Signature(shape))


def layout(port: Stream) -> data.StructLayout:
    """Layout of a payload: the stream's fields, first field lowest; several lanes form an array."""
    return data.StructLayout({item.name: _field(item) for item in port.fields})


def _field(item: Field) -> Shape | data.ArrayLayout:
    return shape(item.format) if item.lanes == 1 else data.ArrayLayout(shape(item.format), item.lanes)


def shape(number: Format) -> Shape:
    """Signed or unsigned shape of a fixed-point format."""
    return signed(number.width) if number.signed else unsigned(number.width)


def withheld(m: Module, load: wiring.PureInterface) -> Value:
    """Whether a load withholds the output: from the load's first bit to the bit marked `last`, also in gaps."""
    loading = Signal()
    with m.If(load.valid):
        m.d.sync += loading.eq(~load.payload.last)
    return load.valid | loading


def elements(lanes: Value, item: Field) -> list[Value]:
    """Lanes of a field as a list; a field of one lane is a plain number, not an array.

    Each lane is a slice of the underlying signal. From a slice of a slice, Amaranth would emit all lanes for each lane.
    """
    width, signed = item.format.width, item.format.signed
    whole, first = Value.cast(lanes), 0
    assert len(whole) == item.lanes * width, f"{item.name}: {item.lanes} of {width} bits are not {len(whole)} bits"
    if item.lanes == 1:
        return [lanes]
    while isinstance(whole, Slice):
        whole, first = whole.value, first + whole.start
    slices = (whole[first + j * width : first + (j + 1) * width] for j in range(item.lanes))
    return [lane.as_signed() if signed else lane for lane in slices]
