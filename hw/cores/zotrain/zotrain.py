"""RTL of `zotrain`: zeroth order on the array."""

from ..zeroth_order.zeroth_order_core import ZerothOrderCore
from .array_passes import ArrayPasses


class Zotrain(ZerothOrderCore):
    """`ArrayPasses` with `ZerothOrderSequencer`."""

    passes = ArrayPasses
