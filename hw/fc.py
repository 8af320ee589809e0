"""RTL of `fc`."""

from .onestage import OneStage


class Fc(OneStage):
    """See `OneStage`."""
