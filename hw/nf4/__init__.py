"""NF4 quantiser and dequantiser in RTL."""
