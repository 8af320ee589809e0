"""RTL of `conv`."""

from .layer_block import LayerBlock


class Conv(LayerBlock):
    """See `LayerBlock`."""
