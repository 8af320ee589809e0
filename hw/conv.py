"""RTL of `conv`."""

from .onestage import OneStage


class Conv(OneStage):
    """See `OneStage`."""
