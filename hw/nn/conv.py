"""RTL of `conv`."""

from .layer_block import OneStage


class Conv(OneStage):
    """See `OneStage`."""
