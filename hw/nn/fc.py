"""RTL of `fc`."""

from .layer_block import OneStage


class Fc(OneStage):
    """See `OneStage`."""
