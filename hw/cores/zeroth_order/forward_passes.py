"""Forward passes of an engine and the deltas behind them, as a trainer by zeroth order sees them: one interface."""

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
"""A command fails, with an error code and an address or value."""


class Steps:
    """Where the steps of a command are; a trainer has these registers.

    Attributes
    ----------
    begin : 1
        The order list begins; one cycle.
    infer : 1
        Nothing is perturbed; a register, as the command is stable long before it is used.
    outer, inner : range(MOST_PERTURBATIONS)
        Perturbations in progress: of the first or only part, and of the second part for that one.
    outer_ends, inner_ends : 1
        It is the last one of its loop, a cycle after it has begun.
    left : 32 bits
        Steps of the command, with the one in progress.
    """

    def __init__(self) -> None:
        self.begin, self.infer, self.left = Signal(name="begin"), Signal(name="infer"), Signal(32, name="steps_left")
        self.outer, self.inner = (Signal(range(MOST_PERTURBATIONS), name=name) for name in ("outer", "inner"))
        self.outer_ends, self.inner_ends = Signal(name="outer_ends"), Signal(name="inner_ends")


class ForwardPasses(ABC):
    """Passes of an engine, and deltas of its parameters: wires and states in the module of the trainer that has them.

    Methods called ``..._states`` add states to the trainer's machine, and others what belongs to its present one.
    """

    reads: ClassVar[tuple[str, ...]]
    """Requesters that read, the highest rank first, among them ``order`` and ``images``."""
    spread: ClassVar[tuple[str, ...]] = ()
    """Those of them that have all ports to the memory."""
    far: ClassVar[bool] = False
    """The registers of settings are far away: perturbations have registers of their own."""

    trainer: Any
    """The `ZerothOrderSequencer`, which sets this."""
    parts: dict[str, Any]
    """Submodules of the trainer, among them `scheduler`, `deltas` and what they need."""
    scheduler: OrderList
    """Steps and samples."""
    deltas: Any
    """Deltas, with a stream ``save`` of beats."""
    delta_beats: Value | int
    """Beats of their image."""
    logits: LogitWriter
    """Writer of results, a part of the trainer's own."""
    classes: int
    """Most logits of a sample."""
    loss: Loss = "cross_entropy"
    position: Value
    """Position of the generator's next word."""
    cut: Value
    """There are two parts, each with perturbations of its own."""
    first: Value
    """The perturbation in progress is that of the part before the cut."""
    rests: Value
    """All that was read has come, and all results are with the memory."""

    def __init__(self, spec: Any) -> None:
        self.spec: Any = spec
        self.steps = Steps()
        # further ports of the trainer
        self.members: dict[str, Any] = {}
        # the second part has one perturbation, whatever the setting is
        self.single: Value = Const(0)
        # the step in progress is the command's last one
        self.last_step: Value = self.steps.left == 1
        # what fails beside memory and order list, the first one first; the last one is told where nothing fails
        self.faults: list[Fault] = []

    @classmethod
    @abstractmethod
    def monitor_of(cls, spec: Any) -> Monitor:
        """Monitor of the deltas of a core with this spec."""

    @classmethod
    def assemble(cls, sequencer: Any) -> wiring.Component:
        """Trainer of a core, from its sequencer: what the engine has outside of the sequencer is added here."""
        return sequencer

    @classmethod
    def perturbations(cls, m: Module, settings: wiring.PureInterface) -> tuple[Value, Value]:
        """Give the perturbations of both parts."""
        p1, p2 = (value[: MOST_PERTURBATIONS.bit_length()] for value in (settings.p1, settings.p2))
        return (register(m, "own_p1", p1), register(m, "own_p2", p2)) if cls.far else (p1, p2)

    @abstractmethod
    def connect(self, m: Module, p1: Value, p2: Value) -> None:
        """Connect the parts with each other and with the trainer, for so many perturbations of a step."""

    @abstractmethod
    def images(self, m: Module) -> ImageReads:
        """Read the image of each command that has one, and samples."""

    @abstractmethod
    def results(self, m: Module) -> tuple[Any, Value, Value, Value]:
        """Give the stream of results, a logit of it, if it is a sample's last, and if it is written or has a loss."""

    @abstractmethod
    def idle(self, m: Module) -> Value:
        """Prepare for the command that starts; tell whether it begins."""

    @abstractmethod
    def begin_clear(self, m: Module) -> None:
        """Begin to clear the deltas of new parameters, in state ``CLEAR``."""

    @abstractmethod
    def begin_inference(self, m: Module) -> None:
        """Begin a job without perturbations, in a state of the engine's own or in ``STEP``."""

    @abstractmethod
    def begin_outer(self, m: Module) -> None:
        """Take the words of the first part, or of the only one."""

    @abstractmethod
    def begin_second(self, m: Module) -> None:
        """Go on with the second part's perturbations, behind the passes of the first part's."""

    @abstractmethod
    def begin_perturbation(self, m: Module, first: Value | int) -> None:
        """Go on with a perturbation, of the `first` part or of another one."""

    def transfer(self, m: Module) -> None:  # noqa: B027
        """Do what belongs to an image while it is read; by default nothing."""

    @abstractmethod
    def delta_states(self, m: Module, save: Any) -> None:
        """Clear the deltas, or write their image with the command `save`: from ``CLEAR`` or ``SAVE`` to ``END``."""

    @abstractmethod
    def pass_states(self, m: Module, passed: Callable[[], None], ended: Callable[[], None]) -> None:
        """Make a perturbation and run its passes.

        Parameters
        ----------
        m : Module
        passed, ended : callable
            Add what follows the passes of a perturbation, or of a step without perturbations.
        """

    @abstractmethod
    def update_states(self, m: Module, ended: Callable[[], None]) -> None:
        """Carry out the walks of the updates from ``WALK`` on; add by `ended` what follows the last one."""

    @abstractmethod
    def other_states(self, m: Module) -> None:
        """Add states that are not in a training's way."""
