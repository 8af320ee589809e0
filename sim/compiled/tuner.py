"""Fine-tuning jobs of cores: the core for a method, and how its job runs in integers and on the core."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ...boards.host.driver import Core
from ...golden.cores.core import CoreSpec
from ...golden.cores.network_core import NetworkCoreSpec
from ...golden.datasets.dataset import Samples
from ...golden.errors import UserError
from ...golden.fixed import Integers
from ...golden.models.network import Network
from ...golden.nn.arithmetic.forward import StageIntegers
from ...golden.registry import CORES
from ...golden.rng.pezo import PezoSpec
from ...golden.train.conversion import core_inputs
from ...golden.train.federated.configuration import FederatedConfig
from ...golden.train.tuned.network import TunedNetwork
from ...golden.train.zo.finetune import ZoSettings
from .comparison import Comparison, GoldenComparison, compare, simulated_core
from .playing import HostJob, Played, played_on_golden
from .session import Dram

DEFAULT_CORE = "small"
"""Default preset of a core for a job."""
CORE_ENGINES = ("rtl", "golden-core")
"""Engines of `fabtune tune` that run a job on a core after the integers."""
HELD_OUT = 200
"""Largest number of held-out samples whose logits are compared at the end."""
Stage = Callable[[str], None]
"""Called with the name of each step of a simulation as it begins."""


def silent(stage: str) -> None:
    """Show no stage."""


class CoreTuner(ABC):
    """Fine-tuning jobs of a core, in ``sim/cores/CORE/tune.py``.

    Attributes
    ----------
    methods : collection of str
        Methods of `fabtune tune` on the core.
    """

    methods: ClassVar[Collection[str]]

    @abstractmethod
    def job(self, tuning: Any, spec: Any) -> tuple[HostJob[Any], NDArray[np.integer]]:
        """Before the run in integers, make the job for the host driver, and the held-out samples for the logits.

        An unsupported job is a `UserError`.
        """

    @abstractmethod
    def adopt(self, tuning: Any, result: Any, spec: Any, job: Any, played: Played) -> bool:
        """Put the core's parameters into a job and its result; return whether the integers' parameters differ."""

    def place(self, spec: Any, job: Any, golden: Played, played: Played) -> str | None:
        """Describe the first difference within a step; None if only the recordings show it."""
        return None

    def run(
        self,
        tuning: Any,
        spec: Any,
        stage: Stage = silent,
        dram: Dram | None = None,
        seed: int = 0,
        **progress: Any,
    ) -> tuple[Any, Comparison]:
        """Run a job in integers, then on the compiled core, and compare.

        Parameters
        ----------
        tuning : AdapterTuning, IntegerTuning or TransformerTuning
            Job; afterwards with the core's parameters.
        spec : CoreSpec
            From `spec_for`.
        stage : Stage
        dram : Dram, optional
            Behaviour of the core's memory, with randomness from `seed`.
        **progress
            Passed to the tuning's ``run``.

        Returns
        -------
        result : object
            Result of the tuning's ``run``, with the accuracy after tuning and the tensors from the core's parameters.
        comparison : Comparison
        """
        job, held_out, result = self._integers(tuning, spec, stage, progress)
        played, comparison = compare(spec, job, held_out, dram, seed, stage)
        if comparison.mismatches:
            stage("look for the first difference")
            place = self.place(spec, job, comparison.golden, played)
            comparison = replace(comparison, difference=place or comparison.difference)
        self.adopt(tuning, result, spec, job, played)
        return result, comparison

    def run_on_golden(
        self, tuning: Any, spec: Any, stage: Stage = silent, **progress: Any
    ) -> tuple[Any, GoldenComparison]:
        """Run a job in integers, then on the golden core through the host driver, and compare; see `run`."""
        job, held_out, result = self._integers(tuning, spec, stage, progress)
        stage("run the job on the golden core")
        played = played_on_golden(job, spec, held_out)
        differs = self.adopt(tuning, result, spec, job, played)
        return result, GoldenComparison(len(played.records), int(differs))

    def _integers(
        self, tuning: Any, spec: Any, stage: Stage, progress: Mapping[str, Any]
    ) -> tuple[HostJob[Any], NDArray[np.integer], Any]:
        job, held_out = self.job(tuning, spec)
        stage("tune in integers")
        return job, held_out, tuning.run(**progress)


class Tuner(CoreTuner):
    """Jobs of a core for networks of layers, the ``TUNER``."""

    @abstractmethod
    def spec_for(
        self, network: Network, settings: Any, samples: int, byte_inputs: bool, preset: str = DEFAULT_CORE
    ) -> NetworkCoreSpec:
        """Make the spec of a core for a job.

        Parameters
        ----------
        network : Network
        settings : AdapterSettings or ZoSettings
        samples : int
            Samples to tune with.
        byte_inputs : bool
            Samples are bytes.
        preset : str
            Preset of the core; an unknown preset, or an unsupported job, is a `UserError`.
        """

    @abstractmethod
    def untuned(
        self, tuned: TunedNetwork, rank: int, samples: Samples, preset: str
    ) -> tuple[NetworkCoreSpec, HostJob[Any]]:
        """Make the spec, and a job that loads a network; see `infer`."""

    def infer(self, tuned: TunedNetwork, rank: int, samples: Samples, preset: str, stage: Stage = silent) -> Inference:
        """Run samples through a network, with adapters of this rank, on the compiled core.

        An unknown preset, or an unsupported network, is a `UserError`.
        """
        spec, job = self.untuned(tuned, rank, samples, preset)
        device = simulated_core(spec, None, 0, stage)
        host = job.host(Core.on(spec, device), spec)
        stage("simulate the network")
        job.load(host)
        job.start(host)
        return Inference(spec, host.logits(core_inputs(samples)), device.simulated)


class TransformerTuner(CoreTuner):
    """Jobs of a core for transformers, the ``TRANSFORMER_TUNER``."""

    @abstractmethod
    def spec_for(self, settings: ZoSettings, preset: str = DEFAULT_CORE) -> Any:
        """Make the spec of a core for a job: a `CoreSpec` whose array has ``lanes`` and ``columns``."""


def preset_of(core: type[CoreSpec], name: str) -> dict[str, Any]:
    """Copy the parameters of a core's preset; an unknown name is a `UserError`."""
    if name not in core.presets:
        raise UserError(f"there is no core {name!r}; there are: {', '.join(core.presets)}")
    return dict(core.presets[name])


@dataclass(frozen=True)
class Inference:
    """Outputs of a network on the compiled core.

    Parameters
    ----------
    spec : NetworkCoreSpec
    logits : array of int64, (n, classes)
        Q8.16.
    cycles : int
        Clock cycles of all commands, loads included.
    """

    spec: NetworkCoreSpec
    logits: Integers
    cycles: int


class Federation(Protocol):
    """Federated clients that are simulated cores; a core's ``FEDERATION`` in ``sim/cores/CORE/tune.py``."""

    def spec_for(self, network: Network, byte_inputs: bool, generator: PezoSpec, preset: str) -> NetworkCoreSpec:
        """Make the spec of a preset for a network and a generator."""

    def in_order(self, spec: Any, network: Network, config: FederatedConfig, stage: int) -> FederatedConfig:
        """Give the core's order of perturbations to a federation that cuts the network at a stage."""

    def clients(
        self, spec: Any, frozen: Sequence[StageIntegers], config: FederatedConfig, owned: Sequence[Samples], seed: int
    ) -> Sequence[Any]:
        """Make a simulated core for each client's samples, see `golden.train.federated.client`."""


def federation() -> Federation:
    """First core in the registry that can be a federated client; a `UserError` if missing."""
    parts = (spec.part("sim", "tune", "FEDERATION") for spec in CORES.values())
    found: Federation | None = next((part for part in parts if part), None)
    if found is None:
        raise UserError("no core can be a client of a federation")
    return found


def transformer_tuner_of(method: str) -> TransformerTuner:
    """First core in the registry that runs a method on transformers; a `UserError` if missing."""
    found: TransformerTuner | None = _first("TRANSFORMER_TUNER", method)
    if found is None:
        raise UserError(f"no core runs the jobs of {method} on transformers")
    return found


def tuner_of(method: str) -> Tuner:
    """First core in the registry that runs a method; a `UserError` if missing."""
    found: Tuner | None = _first("TUNER", method)
    if found is None:
        raise UserError(f"no core runs the jobs of {method}")
    return found


def _first(name: str, method: str) -> Any:
    parts = (spec.part("sim", "tune", name) for spec in CORES.values())
    return next((part for part in parts if part and method in part.methods), None)
