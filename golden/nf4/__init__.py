"""4-bit NormalFloat (NF4): the codec, and the quantiser and dequantiser blocks."""
