"""Fine-tuning methods, one table entry each, and default settings by network.

Sources: InstantFT, sections 2 and 3; Skip2-LoRA, sections 2 to 4; LoRA-FA, arXiv 2308.03303, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod
from typing import TYPE_CHECKING, TypeVar

from ...errors import UserError

if TYPE_CHECKING:  # the command line lists the methods before it imports anything large
    from ...lora.adapters import Tuned
    from ...models.network import Network

Layer = TypeVar("Layer")


class Reach(StrEnum):
    """Set of layers."""

    NONE = "none"
    LAST = "last"
    ALL = "all"

    def of(self, layers: Sequence[Layer]) -> Sequence[Layer]:
        return {Reach.NONE: layers[:0], Reach.LAST: layers[-1:], Reach.ALL: layers}[self]


class AdapterPlacement(StrEnum):
    """Placement of low-rank adapters."""

    NONE = "none"
    LAST = "last"
    """One adapter in parallel with the last layer."""
    PARALLEL = "parallel"
    """Adapters in parallel with every layer: ordinary LoRA."""
    SKIP = "skip"
    """Adapters from every layer's input to the last layer's output."""


class Cache(StrEnum):
    """Forward cache: format of the frozen network's stored results."""

    NONE = "none"
    FULL = "full"
    """Every adapter's input and the base logits at full width."""
    NF4 = "nf4"
    """Every adapter's input and the base logits in NF4."""


@dataclass(frozen=True)
class Method:
    """A fine-tuning method.

    Parameters
    ----------
    name : str
        Name on the command line.
    title : str
        Name in the papers.
    weights, biases : Reach
        Trained parameters of the network itself.
    fixed_a : bool
        A of each adapter stays as it was drawn; B alone is trained.
    """

    name: str
    title: str
    weights: Reach = Reach.NONE
    biases: Reach = Reach.NONE
    adapters: AdapterPlacement = AdapterPlacement.NONE
    cache: Cache = Cache.NONE
    fixed_a: bool = False

    def trains(self, name: str) -> bool:
        """Whether a tensor of `Engine.tensors` is trained; a fixed A is not."""
        return not (self.fixed_a and name.endswith(".a"))

    @property
    def last_layer(self) -> Tuned | None:
        """Trained part of the last layer itself."""
        if self.weights is Reach.LAST:
            return "layer"
        return "biases" if self.biases is Reach.LAST else None

    @property
    def propagates(self) -> bool:
        """True if gradients propagate back through the network."""
        return Reach.ALL in (self.weights, self.biases) or not self.ends_in_logits

    @property
    def has_adapters(self) -> bool:
        return self.adapters is not AdapterPlacement.NONE

    @property
    def skips(self) -> bool:
        """True if an adapter leads from every layer's input to the logits."""
        return self.adapters is AdapterPlacement.SKIP

    @property
    def ends_in_logits(self) -> bool:
        """True if adapters add to the logits, or none exist; otherwise each adapter adds to its layer's output."""
        return self.adapters is not AdapterPlacement.PARALLEL

    @property
    def caches(self) -> bool:
        return self.cache is not Cache.NONE

    @property
    def caches_raw(self) -> bool:
        """True if a core's records are in Q8.16: with a cache at full width, and without a cache."""
        return self.cache is not Cache.NF4

    @property
    def core_settings(self) -> dict[str, object]:
        """Parameters of the adapter core that runs the method."""
        cache = {} if self.caches else {"cache": "none"}
        return {"last_only": self.adapters is AdapterPlacement.LAST, "tunes": self.last_layer or "adapters", **cache}


METHODS = {
    method.name: method
    for method in (
        Method("ft-all", "FT-All", Reach.ALL, Reach.ALL),
        Method("ft-last", "FT-Last", Reach.LAST, Reach.LAST),
        Method("ft-bias", "FT-Bias", biases=Reach.ALL),
        Method("ft-bias-last", "FT-Bias-Last", biases=Reach.LAST),
        Method("ft-all-lora", "FT-All-LoRA", Reach.ALL, Reach.ALL, AdapterPlacement.PARALLEL),
        Method("lora-all", "LoRA-All", adapters=AdapterPlacement.PARALLEL),
        Method("lora-fa", "LoRA-FA", adapters=AdapterPlacement.PARALLEL, fixed_a=True),
        Method("lora-last", "LoRA-Last", adapters=AdapterPlacement.LAST),
        Method("skip-lora", "Skip-LoRA", adapters=AdapterPlacement.SKIP),
        Method("skip2-lora", "Skip2-LoRA", adapters=AdapterPlacement.SKIP, cache=Cache.FULL),
        Method("instantft", "InstantFT", adapters=AdapterPlacement.SKIP, cache=Cache.NF4),
    )
}
DEFAULT = "instantft"
"""Default method of `fabtune tune` and of a sweep."""
BACKPROPAGATION = METHODS["ft-all"]
"""Training of all parameters: the reference of the cost table."""


def method_of(name: str) -> Method:
    if name not in METHODS:
        raise UserError(f"there is no method {name!r}; there are: {', '.join(METHODS)}")
    return METHODS[name]


@dataclass(frozen=True)
class AdapterShape:
    """Dimensions of an adapter of the input of a stage: B (outputs x rank) times A (rank x inputs)."""

    stage: int
    inputs: int
    outputs: int
    rank: int

    @property
    def parameters(self) -> int:
        return self.rank * (self.inputs + self.outputs)

    def trained(self, method: Method) -> int:
        return self.rank * self.outputs if method.fixed_a else self.parameters


def adapter_shapes(network: Network, method: Method, rank: int = 4) -> tuple[AdapterShape, ...]:
    """Adapters that a method adds to a network, in the order of their inputs.

    Parallel adapters of a convolution read and write whole feature maps, before the max-pool, as InstantFT counts them.

    Raises
    ------
    UserError
        If the rank is below 1.
    """
    if rank < 1:
        raise UserError(f"an adapter's rank is at least 1, not {rank}")
    stages = list(enumerate(network.stages))
    if not method.has_adapters:
        return ()
    if method.adapters is AdapterPlacement.LAST:
        stages = stages[-1:]
    outputs = {number: prod(stage.computed_shape) for number, stage in stages}
    if method.skips:
        outputs = dict.fromkeys(outputs, network.classes)
    return tuple(AdapterShape(number, stage.inputs, outputs[number], rank) for number, stage in stages)


@dataclass(frozen=True)
class AdapterDefaults:
    """Epochs and learning rate for batches of 20."""

    epochs: int
    rate: float


_DEFAULTS = {
    "lenet5-mnist": AdapterDefaults(10, 0.1),  # InstantFT, section 5.1
    "lenet5-svhn": AdapterDefaults(10, 0.025),
    "fan": AdapterDefaults(300, 0.003),  # epochs: Skip2-LoRA, section 5.2; the paper does not give rates
    "har": AdapterDefaults(600, 0.01),
    "digits": AdapterDefaults(20, 0.1),
}
_OTHER = AdapterDefaults(10, 0.05)


def adapter_defaults(network: str) -> AdapterDefaults:
    """Defaults of a preset network, or of any other network."""
    return _DEFAULTS.get(network, _OTHER)
