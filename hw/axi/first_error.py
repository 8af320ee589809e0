"""First error of an AXI4 manager."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from .bursts import BurstSplitter
from .bus import Response


def first_error(
    m: Module, manager: Any, splitter: BurstSplitter, stopped: Signal, bad: Value, response: Value, beat: Value
) -> None:
    """Store a manager's first error in `error` and `error_address`, and stop the manager.

    Parameters
    ----------
    stopped : Signal
        Flag that is set with the error.
    bad, response, beat : Value
        Flag: a response is an error; its code; beat number, in memory, of the burst's first beat.
    """
    offset, above = splitter.beat_bits, len(manager.error_address) - manager.spec.address
    error_beat = Signal(len(manager.error_address) - offset, name="error_beat")
    m.d.comb += manager.error_address.eq(Cat(Const(0, offset), error_beat))
    beyond = splitter.o.valid & splitter.beyond if above else Const(0)
    with m.If((bad | beyond) & ~manager.error.any()):
        m.d.sync += [
            stopped.eq(1),
            manager.error.eq(Mux(bad, response, Response.DECERR)),
            error_beat.eq(Mux(bad, beat, Cat(splitter.o.payload.address[offset:], Const(1, above)))),
        ]
