"""RTL of `zotrain`: zeroth order on the array."""

from ..zeroth_order.zeroth_order_core import ZerothOrderCore
from .array_passes import ArrayPasses


class Zotrain(ZerothOrderCore):
    """The core: `ArrayPasses` times `ZerothOrderSequencer`."""

    passes = ArrayPasses
