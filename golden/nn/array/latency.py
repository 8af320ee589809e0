"""Registers and states of the array of multipliers and of the forward engine, by name, in cycles.

The RTL takes its latencies from here, and the specs add up their cycle counts from the same names.
"""

from __future__ import annotations

OPERANDS = 1
"""Operand registers in front of the multipliers."""
PRODUCT = 1
"""Product register of a multiplier."""
ACCUMULATOR = 1
"""Accumulator of a multiplier; for a sum across the lanes it passes the product on."""
LEVEL = 1
"""A level of an adder tree."""
PAIR = 1
"""Register that joins two columns where the array takes several words at once; four are joined in two steps."""
BIAS = 1
"""Register of the biases, before they enter a sum across the lanes."""
SUM = 1
"""Accumulator of a sum across the lanes."""
ROUNDING = 3
"""Rounding and saturation: halves, sum, saturation."""

BUFFERED = 1
"""Cycles from a sample's last write to the start of the waiting sequencer."""
STAGE_STATES = 3
"""States of the sequencer before a stage runs: wait for room in the output memory, load its loops, begin them."""
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
"""Sum of a parameter and its offset, where the forward engine has offsets."""
POOLING = 2
"""Largest of a pool, clip of the activation."""
AVERAGING = 3
"""Sum of a pool, registers of the sums and of the averages of all columns: where a network has an average pool."""
OUTPUT_WRITE = 1
"""Write of the output memory."""
OUTPUT_READ = 1
"""Read of the output memory."""
FILLED = 1
"""Register of the forward engine's port `filled`."""
READABLE = 2
"""Cycles from `filled` of a stage to the first permitted read of its outputs."""
DRAIN = 1
"""State of the sequencer after a stage's last word, before it counts down."""


def tree_latency(lanes: int, words_per_cycle: int = 1) -> int:
    """Cycles from operands to their sum across the lanes, before it is accumulated.

    Parameters
    ----------
    lanes : int
        Products of a column, a power of two; the adder tree has a register a level.
    words_per_cycle : int
        1, 2 or 4.
    """
    levels, pairs = lanes.bit_length() - 1, words_per_cycle.bit_length() - 1
    return OPERANDS + PRODUCT + ACCUMULATOR + LEVEL * levels + PAIR * pairs


def bias_cycles(lanes: int, words_per_cycle: int = 1) -> int:
    """Cycles from the first operands of a sum across the lanes to its biases, see `tree_latency`."""
    return tree_latency(lanes, words_per_cycle) - BIAS


def across_latency(lanes: int, words_per_cycle: int = 1) -> int:
    """Cycles from the last operands of a sum across the lanes to the rounded sum, see `tree_latency`."""
    return tree_latency(lanes, words_per_cycle) + SUM + ROUNDING


def within_latency() -> int:
    """Cycles from the last operands of a sum within each multiplier to the sum."""
    return OPERANDS + PRODUCT + ACCUMULATOR


def output_latency(across: int, pooling: int) -> int:
    """Cycles from a sum's last word, as the sequencer counts it, to the first read of the output that finds it.

    Parameters
    ----------
    across : int
        Latency of the array: `across_latency`.
    pooling : int
        Cycles from sums to outputs, `Mapping.pooling_latency`.
    """
    return ISSUE + ACTIVATION_READ + across + pooling + OUTPUT_WRITE


def write_to_read(across: int, pooling: int) -> int:
    """Cycles from a sum's last word to the first word that may read the output. Parameters: see `output_latency`."""
    written = ISSUE + ACTIVATION_READ + across + pooling + ACTIVATION_WRITE
    return written - (ISSUE + BANK_ADDRESS)


def drain_cycles(across: int, pooling: int) -> int:
    """Cycles that the sequencer counts down behind a stage's last word.

    It is the smallest number at which nothing reads an output too early: neither the reader of the output memory, which
    may begin `READABLE` cycles after `filled`, nor the next stage. Parameters: see `output_latency`.
    """
    outputs = output_latency(across, pooling) - (DRAIN + FILLED + READABLE)
    activations = write_to_read(across, pooling) - (DRAIN + STAGE_STATES + 1)
    return max(outputs, activations)
