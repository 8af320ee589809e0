"""Small cores that many tests share, so that each is generated and compiled once."""

from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec

NETWORK = "1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3"
OPTIONS = {
    "cache": "none",
    "rates": True,
    "tunes": "layer",
    "stochastic": True,
    "early_stop": True,
    "validation": True,
}
"""All that `instantft` has by choice."""


def instantft(**settings):
    """Build the specification of an `instantft`."""
    return InstantftSpec(**({"network": NETWORK, "lanes": 16, "batch": 4, "cache_entries": 64} | settings))


def zotrain(**settings):
    """Build the specification of a `zotrain`, whose network may be cut."""
    return ZotrainSpec(**({"network": NETWORK, "lanes": 16, "cut_rows": 72} | settings))
