"""Interface between the trainer by zeroth order and an engine: forward passes and deltas."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib import wiring

from ....golden.nn.arithmetic.loss import Loss
from ....golden.zo.split import MOST_PERTURBATIONS
from ...primitives.registers import register
from ...zo.steps.order_list import OrderList
from ..image_reads import ImageReads
from ..logit_writer import LogitWriter
from ..shelled_core import Monitor

Fault = tuple[Value, Value, Value]
"""Failure of a command: a flag, an error code, and an address or value."""


class Steps:
    """Progress through the steps of a command, in registers of the trainer.

    Attributes
    ----------
    begin : 1
        Begin the sample schedule; one cycle.
    infer : 1
        The command does not perturb; registered, as the command is stable long before its use.
    outer, inner : range(MOST_PERTURBATIONS)
        Perturbations in progress: of the first or only part, and of the second part.
    outer_ends, inner_ends : 1
        The perturbation is the last of its loop; valid a cycle after its begin.
    left : 32 bits
        Remaining steps of the command, including the present step.
    """

    def __init__(self) -> None:
        self.begin, self.infer, self.left = Signal(name="begin"), Signal(name="infer"), Signal(32, name="steps_left")
        self.outer, self.inner = (Signal(range(MOST_PERTURBATIONS), name=name) for name in ("outer", "inner"))
        self.outer_ends, self.inner_ends = Signal(name="outer_ends"), Signal(name="inner_ends")


class ForwardPasses(ABC):
    """Forward passes of an engine, and deltas of its parameters: wires and states in the trainer's module.

    Methods called ``..._states`` add states to the trainer's state machine, the others logic to its present state.
    """

    reads: ClassVar[tuple[str, ...]]
    """Reading requesters, the highest rank first, including ``order`` and ``images``."""
    spread: ClassVar[tuple[str, ...]] = ()
    """Requesters that read through all memory ports."""
    far: ClassVar[bool] = False
    """Settings are registered again for perturbations, as the shell's registers are far away on the chip."""

    trainer: Any
    """The `ZerothOrderSequencer`, which sets this attribute."""
    parts: dict[str, Any]
    """Submodules of the trainer, including `scheduler` and `deltas`."""
    scheduler: OrderList
    """Scheduler of steps and samples."""
    deltas: Any
    """Memory of the deltas, with a stream ``save`` of beats."""
    delta_beats: Value | int
    """Beats of the deltas' image."""
    logits: LogitWriter
    """Writer of results; the trainer adds its submodule."""
    classes: int
    """Most logits of a sample."""
    loss: Loss = "cross_entropy"
    position: Value
    """Position of the generator's next word."""
    cut: Value
    """The network has two parts with perturbations of their own."""
    first: Value
    """The present perturbation belongs to the part before the cut."""
    rests: Value
    """All reads have arrived, and all results are in the memory."""

    def __init__(self, spec: Any) -> None:
        self.spec: Any = spec
        self.steps = Steps()
        # further ports of the trainer
        self.members: dict[str, Any] = {}
        # high: the second part has one perturbation, regardless of the setting
        self.single: Value = Const(0)
        # the present step is the command's last
        self.last_step: Value = self.steps.left == 1
        # the engine's faults, the most important first; without a fault the last one's code and value are reported
        self.faults: list[Fault] = []

    @classmethod
    @abstractmethod
    def monitor_of(cls, spec: Any) -> Monitor:
        """Monitor of the deltas of a core."""

    @classmethod
    def assemble(cls, sequencer: Any) -> wiring.Component:
        """Trainer of a core: the sequencer, with the parts of the engine outside of it."""
        return sequencer

    @classmethod
    def perturbations(cls, m: Module, settings: wiring.PureInterface) -> tuple[Value, Value]:
        """Numbers of perturbations of both parts."""
        p1, p2 = (value[: MOST_PERTURBATIONS.bit_length()] for value in (settings.p1, settings.p2))
        return (register(m, "own_p1", p1), register(m, "own_p2", p2)) if cls.far else (p1, p2)

    @abstractmethod
    def connect(self, m: Module, p1: Value, p2: Value) -> None:
        """Connect the parts with each other and with the trainer, for `p1` and `p2` perturbations of the parts."""

    @abstractmethod
    def images(self, m: Module) -> ImageReads:
        """Reads of command images and of samples."""

    @abstractmethod
    def results(self, m: Module) -> tuple[Any, Value, Value, Value]:
        """Results of the passes: stream, logit, last of its sample, and written to the memory (1) or used for a loss
        (0).
        """

    @abstractmethod
    def idle(self, m: Module) -> Value:
        """Prepare for a command at its start; return whether the command begins."""

    @abstractmethod
    def begin_clear(self, m: Module) -> None:
        """Begin to clear the deltas of new parameters, in state ``CLEAR``."""

    @abstractmethod
    def begin_inference(self, m: Module) -> None:
        """Begin a job without perturbations, in the engine's first state or in ``STEP``."""

    @abstractmethod
    def begin_outer(self, m: Module) -> None:
        """Select the words of the first or only part."""

    @abstractmethod
    def begin_second(self, m: Module) -> None:
        """Continue with the second part's perturbations after the passes of the first part."""

    @abstractmethod
    def begin_perturbation(self, m: Module, first: Value | int) -> None:
        """Continue with a perturbation; `first`: of the part before the cut."""

    def transfer(self, m: Module) -> None:  # noqa: B027
        """Logic of the state that reads an image; none by default."""

    @abstractmethod
    def delta_states(self, m: Module, save: Any) -> None:
        """States that clear the deltas (``CLEAR``) or write their image with the command `save` (``SAVE``), up to
        ``END``.
        """

    @abstractmethod
    def pass_states(self, m: Module, passed: Callable[[], None], ended: Callable[[], None]) -> None:
        """States that make a perturbation and run its passes.

        Parameters
        ----------
        m : Module
        passed : callable
            Adds the logic after the passes of a perturbation.
        ended : callable
            Adds the logic after the passes of a step without perturbations.
        """

    @abstractmethod
    def update_states(self, m: Module, ended: Callable[[], None]) -> None:
        """States that update the deltas, from ``WALK`` on; `ended` adds the logic after the last update."""

    @abstractmethod
    def other_states(self, m: Module) -> None:
        """Further states of the engine."""
