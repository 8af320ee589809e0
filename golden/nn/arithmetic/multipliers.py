"""DSP inference of products with constants."""

MAX_SMALL_PRODUCT = 17
"""Largest sum of operand widths of a multiplier without a DSP."""


def takes_dsp(width: int, constant: int) -> bool:
    """Whether the product of an operand of `width` bits and a positive constant is a DSP.

    Constants of one or two ones, or a run of ones, are a sum or difference of shifted operands.
    """
    run = constant // (constant & -constant)
    is_sum = constant.bit_count() <= 2 or run & (run + 1) == 0
    return width + constant.bit_length() > MAX_SMALL_PRODUCT and not is_sum
