"""RTL of `instantft`: adapters on the array."""

from ..adapters.adapter_core import AdapterCore
from .array_adapter_passes import ArrayAdapterPasses


class Instantft(AdapterCore):
    """The core: `ArrayAdapterPasses` times `AdapterTrainer`."""

    passes = ArrayAdapterPasses
