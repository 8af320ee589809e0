"""RTL of `instantft`: training of adapters on the array."""

from ..adapters.adapter_core import AdapterCore
from .array_adapter_passes import ArrayAdapterPasses


class Instantft(AdapterCore):
    """`ArrayAdapterPasses` with `AdapterTrainer`."""

    passes = ArrayAdapterPasses
