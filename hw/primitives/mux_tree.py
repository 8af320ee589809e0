"""Multiplexer tree: one of several values, selected by a binary index."""

from collections.abc import Sequence

from amaranth.hdl import Mux, Value, ValueLike


def mux_tree(index: Value, entries: Sequence[ValueLike]) -> Value:
    """Select the entry at an index, combinationally; the last entry for an index beyond it.

    An `Array` of constants would become a memory in Verilog, whose register does not move into a DSP; an `Array` of
    signals becomes a decoder with one line for each entry, which is twice the logic.

    Parameters
    ----------
    index : Value
        Unsigned; needs as many bits as the number of entries, or fewer if the upper entries are never selected.
    entries : sequence of ValueLike
        At least one.
    """
    if len(index) == 0 or len(entries) == 1:
        return Value.cast(entries[0])
    half = 1 << (len(index) - 1)
    if len(entries) <= half:
        return Mux(index[-1], entries[-1], mux_tree(index[:-1], entries))
    return Mux(index[-1], mux_tree(index[:-1], entries[half:]), mux_tree(index[:-1], entries[:half]))
