"""4-bit NormalFloat (NF4): codec, quantiser and dequantiser."""
