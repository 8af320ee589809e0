"""Parts of which a forward engine is composed: access to the array, parameters, operands, sides, outputs."""
