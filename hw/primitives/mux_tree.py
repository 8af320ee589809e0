"""One of several, by its number: a tree of multiplexers."""

from collections.abc import Sequence

from amaranth.hdl import Mux, Value, ValueLike


def mux_tree(index: Value, entries: Sequence[ValueLike]) -> Value:
    """The entry at an index, or the last one for an index beyond it.

    An array of constants would become a memory in Verilog, whose register does not move into a DSP; one of many values
    a decoder with one line for each, which is twice the logic.
    """
    if len(index) == 0 or len(entries) == 1:
        return Value.cast(entries[0])
    half = 1 << (len(index) - 1)
    if len(entries) <= half:
        return Mux(index[-1], entries[-1], mux_tree(index[:-1], entries))
    return Mux(index[-1], mux_tree(index[:-1], entries[half:]), mux_tree(index[:-1], entries[:half]))
