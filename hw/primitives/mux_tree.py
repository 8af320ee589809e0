"""Multiplexer tree, selected by a binary index."""

from collections.abc import Sequence

from amaranth.hdl import Mux, Value, ValueLike


def mux_tree(index: Value, entries: Sequence[ValueLike]) -> Value:
    """Entry at an index, combinationally; the last entry for an index beyond the end.

    An `Array` of constants would become a memory in Verilog, with a register that does not merge into a DSP. An `Array`
    of signals would become a one-hot decoder, with twice the logic.

    Parameters
    ----------
    index : Value
        Unsigned; may have fewer bits if the upper entries are never selected.
    entries : sequence of ValueLike
        Not empty.
    """
    if len(index) == 0 or len(entries) == 1:
        return Value.cast(entries[0])
    half = 1 << (len(index) - 1)
    if len(entries) <= half:
        return Mux(index[-1], entries[-1], mux_tree(index[:-1], entries))
    return Mux(index[-1], mux_tree(index[:-1], entries[half:]), mux_tree(index[:-1], entries[:half]))
