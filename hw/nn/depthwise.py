"""RTL of `depthwise`."""

from .layer_block import LayerBlock


class Depthwise(LayerBlock):
    """See `LayerBlock`."""
