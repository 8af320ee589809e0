"""The contract of a core that runs fine-tuning jobs: which methods, on which preset, and how a job is compared."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...golden.cores.core import CoreSpec
from ...golden.cores.network_core import NetworkCoreSpec
from ...golden.datasets.dataset import Samples
from ...golden.errors import UserError
from ...golden.fixed import Integers
from ...golden.models.network import Network
from ...golden.nn.arithmetic.forward import StageIntegers
from ...golden.registry import CORES
from ...golden.rng.pezo import PezoSpec
from ...golden.train.federated.configuration import FederatedConfig
from ...golden.train.tuned.network import TunedNetwork
from ...golden.train.zo.finetune import ZoSettings
from .comparison import Comparison

DEFAULT_CORE = "small"
"""Preset of a core for a job."""
HELD_OUT = 200
"""Held-out samples whose logits are compared at the end, at most."""
Stage = Callable[[str], None]
"""Called with the name of each step of a simulation as it begins."""


class Tuner(Protocol):
    """A core's ``TUNER``, in ``sim/cores/CORE/tune.py``.

    Attributes
    ----------
    methods : collection of str
        Methods of `fabtune tune` whose jobs the core runs.
    """

    methods: Collection[str]

    def spec_for(
        self, network: Network, settings: Any, samples: int, byte_inputs: bool, preset: str = DEFAULT_CORE
    ) -> NetworkCoreSpec:
        """Choose the core for a job.

        Parameters
        ----------
        network : Network
        settings : AdapterSettings or ZoSettings
            The job, as its method has it.
        samples : int
            Samples to tune with.
        byte_inputs : bool
            Whether samples are bytes.
        preset : str
            A preset of the core, for this network.

        Raises
        ------
        UserError
            If there is no such preset, or the core cannot run the job.
        """

    def run(self, tuning: Any, spec: Any, stage: Stage, **progress: Any) -> tuple[Any, Comparison]:
        """Run a job in integers, then on the compiled core, and compare.

        Parameters
        ----------
        tuning : AdapterTuning or IntegerTuning
            The job; afterwards what it tuned is the core's.
        spec : NetworkCoreSpec
            From `spec_for`.
        stage : Stage
        **progress
            See the tuning's own ``run``.

        Returns
        -------
        result
            Of the tuning's ``run``; accuracy after tuning, and tensors, are those of the core's parameters.
        Comparison
        """

    def infer(self, tuned: TunedNetwork, rank: int, samples: Samples, preset: str, stage: Stage) -> Inference:
        """Run samples through a network on the compiled core.

        Parameters
        ----------
        tuned : TunedNetwork
        rank : int
            Of its adapters.
        samples : Samples
        preset : str
            A preset of the core, for this network.
        stage : Stage

        Raises
        ------
        UserError
            If there is no such preset, or the core cannot run the network.
        """


class TransformerTuner(Protocol):
    """A core's ``TRANSFORMER_TUNER``, in ``sim/cores/CORE/tune.py``: the same for transformers, which it loads."""

    methods: Collection[str]

    def spec_for(self, settings: ZoSettings, preset: str = DEFAULT_CORE) -> Any:
        """Choose the core for a job: a `CoreSpec` whose array has ``lanes`` and ``columns``; see `Tuner.spec_for`."""

    def run(self, tuning: Any, spec: Any, stage: Stage, **progress: Any) -> tuple[Any, Comparison]:
        """Run a `TransformerTuning`, with the tiles of the core's array, see `Tuner.run`."""


def preset_of(core: type[CoreSpec], name: str) -> dict[str, Any]:
    """Copy the parameters of a preset of a core.

    Raises
    ------
    UserError
        If there is no such preset.
    """
    if name not in core.presets:
        raise UserError(f"there is no core {name!r}; there are: {', '.join(core.presets)}")
    return dict(core.presets[name])


@dataclass(frozen=True)
class Inference:
    """Outputs of a network on the compiled core.

    Parameters
    ----------
    spec : NetworkCoreSpec
        The core.
    logits : array of int64, (n, classes)
        Q8.16.
    cycles : int
        Clock cycles of all commands, loads included.
    """

    spec: NetworkCoreSpec
    logits: Integers
    cycles: int


class Federation(Protocol):
    """A core's ``FEDERATION``, in ``sim/cores/CORE/federated.py``: clients that are cores."""

    def spec_for(self, network: Network, byte_inputs: bool, generator: PezoSpec, preset: str) -> NetworkCoreSpec:
        """Make the spec of a preset for a network and a generator."""

    def in_order(self, spec: Any, network: Network, config: FederatedConfig, stage: int) -> FederatedConfig:
        """Give a federation that cuts the network at a stage the order in which the core perturbs parameters."""

    def clients(
        self, spec: Any, frozen: Sequence[StageIntegers], config: FederatedConfig, owned: Sequence[Samples], seed: int
    ) -> Sequence[Any]:
        """Make a simulated core for the samples of each client, see `golden.train.federated.client`."""


def federation() -> Federation:
    """Find the first core in the registry of which a federation's clients can be.

    Raises
    ------
    UserError
        If there is none.
    """
    parts = (spec.part("sim", "federated", "FEDERATION") for spec in CORES.values())
    found: Federation | None = next((part for part in parts if part), None)
    if found is None:
        raise UserError("no core can be a client of a federation")
    return found


def transformer_tuner_of(method: str) -> TransformerTuner:
    """Find the first core in the registry that runs a method's jobs on transformers.

    Raises
    ------
    UserError
        If there is none.
    """
    found: TransformerTuner | None = _first("TRANSFORMER_TUNER", method)
    if found is None:
        raise UserError(f"no core runs the jobs of {method} on transformers")
    return found


def tuner_of(method: str) -> Tuner:
    """Find the first core in the registry that runs a method's jobs.

    Raises
    ------
    UserError
        If there is none.
    """
    found: Tuner | None = _first("TUNER", method)
    if found is None:
        raise UserError(f"no core runs the jobs of {method}")
    return found


def _first(name: str, method: str) -> Any:
    """Find the first tuner of a core that runs a method's jobs; None where there is none."""
    parts = (spec.part("sim", "tune", name) for spec in CORES.values())
    return next((part for part in parts if part and method in part.methods), None)
