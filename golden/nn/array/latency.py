"""Latencies of the array and of the forward engine in cycles, shared by RTL and cycle counts of the specs."""

from __future__ import annotations

OPERANDS = 1
"""Operand registers of the multipliers."""
PRODUCT = 1
"""Product register of a multiplier."""
ACCUMULATOR = 1
"""Accumulator of a multiplier; a plain register for sums across the lanes."""
LEVEL = 1
"""Level of an adder tree."""
PAIR = 1
"""Register that joins two words in parallel; four take two steps."""
BIAS = 1
"""Register of the biases of sums across the lanes."""
SUM = 1
"""Accumulator of a sum across the lanes."""
ROUNDING = 3
"""Rounding and saturation: halves, sum, saturation."""

BUFFERED = 1
"""From a sample's last write to the start of the waiting sequencer."""
STAGE_STATES = 3
"""Sequencer states before a stage runs: wait for room in the output memory, load its loops, begin them."""
ISSUE = 1
"""Register of a word's addresses."""
BANK_ADDRESS = 1
"""First register of a read of the activation memory: the row of each bank."""
ACTIVATION_READ = BANK_ADDRESS + 3
"""Read of the activation memory: row of each bank, banks, and the first two parts of a rotation."""
ACTIVATION_WRITE = 3
"""Write of the activation memory: row and first bank; address and data of each bank; banks."""
PARAMETER_READ = 1
"""Read of the weight memory, and of the bias memory."""
OFFSET = 1
"""Sum of a parameter and its offset."""
POOLING = 2
"""Largest of a pool, clip of the activation."""
AVERAGING = 3
"""Average pool: sum, registers of sums and averages of all columns."""
OUTPUT_WRITE = 1
"""Write of the output memory."""
OUTPUT_READ = 1
"""Read of the output memory."""
FILLED = 1
"""Register of the forward engine's port `filled`."""
READABLE = 2
"""From `filled` of a stage to the first permitted read of its outputs."""
DRAIN = 1
"""Sequencer state after a stage's last word, before its count-down."""


def tree_latency(lanes: int, words_per_cycle: int = 1) -> int:
    """Cycles from operands to their sum across the lanes, before the accumulator.

    Parameters
    ----------
    lanes : int
        A power of two; the adder tree has a register a level.
    words_per_cycle : int
        1, 2 or 4.
    """
    levels, pairs = lanes.bit_length() - 1, words_per_cycle.bit_length() - 1
    return OPERANDS + PRODUCT + ACCUMULATOR + LEVEL * levels + PAIR * pairs


def bias_cycles(lanes: int, words_per_cycle: int = 1) -> int:
    """Cycles from first operands to the biases of a sum across the lanes, see `tree_latency`."""
    return tree_latency(lanes, words_per_cycle) - BIAS


def across_latency(lanes: int, words_per_cycle: int = 1) -> int:
    """Cycles from last operands to the rounded sum across the lanes, see `tree_latency`."""
    return tree_latency(lanes, words_per_cycle) + SUM + ROUNDING


def within_latency() -> int:
    """Cycles from last operands to the sum within each multiplier."""
    return OPERANDS + PRODUCT + ACCUMULATOR


def output_latency(across: int, pooling: int) -> int:
    """Cycles from the sequencer's last word of a sum to the first read of its output from the output memory.

    Parameters
    ----------
    across : int
        Latency of the array: `across_latency`.
    pooling : int
        Cycles from sums to outputs, `Mapping.pooling_latency`.
    """
    return ISSUE + ACTIVATION_READ + across + pooling + OUTPUT_WRITE


def write_to_read(across: int, pooling: int) -> int:
    """Cycles from a sum's last word to the first word that may read its output. Parameters: see `output_latency`."""
    written = ISSUE + ACTIVATION_READ + across + pooling + ACTIVATION_WRITE
    return written - (ISSUE + BANK_ADDRESS)


def drain_cycles(across: int, pooling: int) -> int:
    """Start of the sequencer's count-down after a stage's last word.

    The smallest value with which neither the reader of the output memory (`READABLE` cycles after `filled`) nor the
    next stage reads too early. Parameters: see `output_latency`.
    """
    outputs = output_latency(across, pooling) - (DRAIN + FILLED + READABLE)
    activations = write_to_read(across, pooling) - (DRAIN + STAGE_STATES + 1)
    return max(outputs, activations)
