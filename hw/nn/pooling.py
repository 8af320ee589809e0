"""Max-pool and ReLU: from a stage's sums, as they come, to its outputs."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ...golden.nn import latency
from ...golden.nn.mapping import Mapping
from .interfaces import ACTIVATION, PoolControl, activation_address


class Pooling(wiring.Component):
    """Keep the largest sum of each pool, then apply ReLU. Without handshake; a pool may be a single sum.

    Parameters
    ----------
    mapping : Mapping
        Its columns, and the size of the activation memory.

    Attributes
    ----------
    valid : In, 1
        `sums` has a sum for each column.
    sums : In, array of columns Q8.16
    control : In, `PoolControl`
        Of these sums.
    relu : In, 1
        Negative outputs become 0; stays the same while a stage's sums come.
    limit : In, Q8.16, only where a stage has one
        Larger outputs become `limit`, as `relu`.
    write : Out, 1
        `o` has outputs: `LATENCY` cycles after the pool's last sums.
    mask : Out, a bit for each column
        Columns that have an output; 0 without `write`.
    address : Out, `activation_address`
        Where the first column's output goes in the activation memory.
    o : Out, array of columns Q8.16
        Outputs, a channel a column.
    """

    LATENCY = latency.POOLING

    def __init__(self, mapping: Mapping) -> None:
        self.has_limits = mapping.has_limits
        address, values = activation_address(mapping), data.ArrayLayout(ACTIVATION, mapping.columns)
        super().__init__(
            {
                "valid": In(1),
                "sums": In(values),
                "control": In(PoolControl(mapping)),
                "relu": In(1),
                **({"limit": In(ACTIVATION)} if self.has_limits else {}),
                "write": Out(1),
                "mask": Out(mapping.columns),
                "address": Out(address),
                "o": Out(values),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        best = [Signal(ACTIVATION, name=f"best{column}") for column in range(len(self.mask))]
        pooled, target, mask, relu = Signal(), Signal.like(self.address), Signal.like(self.mask), Signal()
        m.d.sync += [
            pooled.eq(self.valid & self.control.last),
            target.eq(self.control.target),
            mask.eq(self.control.mask),
            relu.eq(self.relu),
        ]
        for largest, value in zip(best, self.sums, strict=True):
            with m.If(self.valid & (self.control.first | (value > largest))):
                m.d.sync += largest.eq(value)
        m.d.sync += [self.mask.eq(Mux(pooled, mask, 0)), self.write.eq(pooled), self.address.eq(target)]
        kept: list[Value] = list(best)
        if self.has_limits:
            limit = Signal(ACTIVATION)
            m.d.sync += limit.eq(self.limit)
            kept = [Mux(value > limit, limit, value) for value in best]
        zipped = zip(self.o, best, kept, strict=True)
        m.d.sync += [into.eq(Mux(relu & value[-1], 0, upper)) for into, value, upper in zipped]
        return m
