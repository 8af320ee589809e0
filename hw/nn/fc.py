"""RTL of `fc`."""

from .layer_block import LayerBlock


class Fc(LayerBlock):
    """See `LayerBlock`."""
