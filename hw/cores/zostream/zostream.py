"""RTL of `zostream`: zeroth order on streamed programs."""

from ..zeroth_order.zeroth_order_core import ZerothOrderCore
from .stream_passes import StreamPasses


class Zostream(ZerothOrderCore):
    """`StreamPasses` with `ZerothOrderSequencer`."""

    passes = StreamPasses
