"""Products with constants: which of them synthesis puts into a DSP."""

MAX_SMALL_PRODUCT = 17
"""A multiplier stays in the fabric while its two operand widths add up to this or less."""


def takes_dsp(width: int, constant: int) -> bool:
    """Whether a product of an operand of so many bits with a positive constant is a DSP.

    A constant of one or two ones, or of a run of ones, makes a sum or a difference of shifted operands.
    """
    run = constant // (constant & -constant)
    is_sum = constant.bit_count() <= 2 or run & (run + 1) == 0
    return width + constant.bit_length() > MAX_SMALL_PRODUCT and not is_sum
