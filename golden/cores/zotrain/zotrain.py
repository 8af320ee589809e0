"""`zotrain`: zeroth-order training of a network on the chip, with the integers of `golden.zo.job.ZerothOrderJob`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property, reduce
from operator import or_
from typing import Any, ClassVar, Literal

from ...axi.axi_read import AxiReadSpec
from ...axi.axi_write import AxiWriteSpec
from ...axi.bus import BEAT, BEAT_COUNT_BITS
from ...axi.memories import port_memories
from ...errors import UserError, check_range
from ...fixed import Q8_16
from ...memories.blocks import URAM_ROWS
from ...memories.plan import MemoryShape
from ...models.network import Network
from ...nn.arithmetic.loss import Loss, labels_of
from ...nn.array.mapping import Mapping as NetworkMapping
from ...nn.array.memories import cut_memory, network_memories, target_memory
from ...rng.gaussian_array import GaussianArraySpec
from ...rng.generators import Generator
from ...rng.perturbation import check_full_rank
from ...rng.pezo import PezoSpec
from ...zo.coefficient import LABEL_MEMORY, LARGEST_BATCH
from ...zo.deltas import DELTA
from ...zo.loss_difference import LossDifferenceSpec
from ...zo.mapping import PerturbationMapping
from ...zo.network_model import check_cut
from ...zo.rows import bias_offset_memory, delta_memory, offset_memories
from ...zo.split import COEFFICIENT_MEMORY, Split
from ...zo.step_settings import StepSettings
from ..core import Check, core_buses
from ..network_core import NetworkCoreSpec
from ..shell import CoreRegisters
from ..zeroth_order.registers import Error
from ..zeroth_order.spec import ZerothOrderSpec
from .memory_layout import ZotrainLayout
from .registers import CORE, JOBS

LEAST_NUMBERS = 31
"""Fewest numbers of a cycle: parameters of a word that share a number stay tied."""
MOST_CUT_ROWS = 1 << 16
MOST_PARAMETER_BYTES = 1 << 22


@dataclass(frozen=True, kw_only=True)
class ZotrainSpec(ZerothOrderSpec, NetworkCoreSpec):
    """Parameters of `zotrain`.

    Parameters
    ----------
    network : str
        Name of a preset, or a description such as ``1x8x8 conv8k3p1 relu pool2 flatten fc32 relu fc10``. Refused: batch
        norm that is not folded; parameters of more than 4 megabytes.
    byte_inputs : bool
        Samples are bytes that stand for 0 to 1; otherwise Q8.16 in four bytes.
    lanes : int
        Size of the array of multipliers: values a cycle. Refused: other than 16 or 32.
    columns : int
        Size of the array of multipliers: outputs for each value. Refused: other than a power of two from 2 to 16.
    generator : PezoSpec
        Numbers of the perturbations: `generator.strategy`, `generator.scale.urng.bits`, `generator.pool.p`, ...
        Refused: fewer than 31 numbers per cycle, because parameters that share a number stay tied, and accuracy
        collapses; n numbers per cycle, if n and the number of parameters of a word have a common factor; a generator
        without replay.
    gaussian : str
        ``tree``, ``select`` or ``sum``: a `GaussianArraySpec` of this form replaces `generator`, with a number for each
        parameter of a perturbation's word. A baseline, for comparison only. Refused: settings of the replaced
        `generator`.
    deltas : str
        Reads of the deltas: `block` reads all numbers of a word in a cycle; `ultra` reads a quarter in a cycle, with a
        quarter of the multipliers, and holds the cut memory in the same RAM if both fit. The kind of RAM is planned for
        the board.
    cut_rows : int
        Rows of the memory at the cut, for outputs of the network's first part. Both parts then have perturbations of
        their own (`golden.zo.split.Split`), see `kept_samples`. 0: the core does not cut the network. Refused: more
        than 65,536; a network of one stage.
    fold : bool
        Words share rows of deltas and offsets, because the generator's numbers repeat: the number of rows is the
        generator's period, whatever the number of words. Refused: fewer words than rows; a pool; a Gaussian generator;
        `cut_rows`.
    loss : str
        Loss of a step: the cross entropy of labels, or `mse`, the mean squared error of an autoencoder, whose targets
        are the samples themselves. Refused: more than 256 classes; with `mse` other outputs than inputs, more than
        16,384, or `cut_rows`.

    Raises
    ------
    UserError
        For a value out of range, a generator with too few numbers a cycle or without replay, settings of an unused
        generator, or parameters that do not fit on the chip.
    """

    name: ClassVar[str] = "zotrain"
    registers: ClassVar[CoreRegisters] = CORE
    jobs: ClassVar[tuple[IntEnum, ...]] = JOBS
    summary: ClassVar[str] = "a network that trains all its weights by zeroth order, behind AXI"
    buses: ClassVar[dict[str, str]] = core_buses()

    presets: ClassVar[dict[str, dict[str, object]]] = {
        "tiny": {"network": "digits", "lanes": 16, "columns": 4, "cut_rows": 1280},
        "small": {"columns": 4, "cut_rows": 4096},
        "fast": {"columns": 8, "deltas": "ultra", "cut_rows": 2048},
        "large": {"network": "1x28x28 flatten fc784 relu fc512 relu fc10", "fold": True},
    }

    network: str = "lenet5-mnist"
    byte_inputs: bool = True
    lanes: int = 32
    columns: int = 4
    generator: PezoSpec = field(default_factory=PezoSpec)
    gaussian: Literal["none", "tree", "select", "sum"] = "none"
    deltas: Literal["block", "ultra"] = "block"
    cut_rows: int = 0
    fold: bool = False
    loss: Loss = "cross_entropy"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.generator.width < LEAST_NUMBERS:
            raise UserError(
                f"a generator of {self.generator.width} numbers a cycle: the {self.mapping.width} parameters of a word "
                f"that share one stay tied, and accuracy collapses; take {LEAST_NUMBERS} or more "
                "(pool.p=33 with pool.size=16863)"
            )
        check_full_rank(self.generator, self.mapping.width)
        if not self.generator.can_replay:
            raise UserError("generator.replay = false: a step takes its perturbation twice, so replay is needed")
        if self.gaussian != "none" and self.generator != PezoSpec():
            raise UserError(f"gaussian = {self.gaussian} takes the place of generator: leave its settings out")
        _ = self.labels  # refuses outputs that do not fit the loss
        check_range("cut_rows", self.cut_rows, 0, MOST_CUT_ROWS)
        if self.cut_rows and len(self.mapping.forward.stages) == 1:
            raise UserError(f"cut_rows = {self.cut_rows}: {self.network} has one stage and is not cut")
        if self.cut_rows and self.loss == "mse":
            raise UserError(f"cut_rows = {self.cut_rows} with loss = mse: a second part has no samples as its targets")
        if self.fold:
            self._check_fold()
        if self.mapping.forward.frozen_beats * BEAT > MOST_PARAMETER_BYTES:
            raise UserError(f"{self.network} has parameters of more than 4 megabytes: they do not fit on the chip")
        if self.layout.delta_beats >= 1 << BEAT_COUNT_BITS:
            raise UserError(f"{self.network} has deltas of more than a megabyte: fold them with fold=true")

    def _check_fold(self) -> None:
        """Refuse `fold` with an unsuitable generator, cut or network."""
        if self.gaussian != "none" or self.generator.strategy == "pool":
            raise UserError("fold = true needs numbers that return after few cycles: a generator on the fly")
        if self.cut_rows:
            raise UserError(f"fold = true with cut_rows = {self.cut_rows}: a folded network is not cut")
        mapping, times = self.mapping, self._times
        least, most = replace(mapping, period=0).words, 1 << (2 * times.bit_length())
        size = "large" if least >= most else "small"
        if not times <= least < most or mapping.cycles > 1 or mapping.bias_words > times:
            raise UserError(
                f"fold = true: {self.network} is too {size} to fold: its parameters are {least} words of the array, "
                f"{times} to {most - 1} can share the {times} rows of deltas; without fold each word has a row"
            )

    @cached_property
    def labels(self) -> int:
        return labels_of(self.loss, self.network, self.described.stages[0].inputs, self.described.classes)

    @cached_property
    def mapping(self) -> PerturbationMapping:
        """Network on the array, and the order of its parameters in a perturbation."""
        forward = NetworkMapping.of(
            self.described, self.lanes, self.columns, self.byte_inputs, sides=2, pairs="perturbed"
        )
        return PerturbationMapping(forward, period=self._times if self.fold else 0)

    @property
    def _times(self) -> int:
        """Cycles after which the generator's numbers repeat, rotated."""
        return len(self.generator.base)

    @cached_property
    def source(self) -> Generator:
        """Generator of the perturbations: `generator`, or a Gaussian generator."""
        if self.gaussian == "none":
            return self.generator
        return GaussianArraySpec(n=self.mapping.width, form=self.gaussian)

    @property
    def parts(self) -> int:
        """Cycles to read the deltas of a word."""
        return 1 if self.deltas == "block" else 4

    @property
    def shares_rows(self) -> bool:
        """Whether the memory at the cut shares the deltas' UltraRAM: each fits in half of the rows and in the width."""
        if not self.cut_rows or self.parts == 1:
            return False
        half, mapping = URAM_ROWS // 2, self.mapping
        numbers = -(-self.source.width // self.parts)
        outputs = mapping.forward.columns * (Q8_16.width + 1) + mapping.forward.activation_values.bit_length()
        deltas = mapping.all_rows * self.parts
        return max(deltas, self.cut_rows) <= half and outputs <= numbers * DELTA.width

    def kept_samples(self, cut: int) -> int:
        """Maximum number of samples of a step with this cut: the rows at the cut hold both sides' outputs."""
        return min(self.cut_rows // self._rows_of_sample(cut), LARGEST_BATCH)

    def _rows_of_sample(self, cut: int) -> int:
        """Rows at the cut for one sample, of both sides."""
        stage = self.mapping.forward.stages[cut - 1]
        return 2 * stage.groups * stage.cells

    def check_split(self, split: Split, batch: int) -> None:
        """Refuse a split of a step that the core cannot run.

        Parameters
        ----------
        split : Split
        batch : int
            Maximum number of samples in a step.

        Raises
        ------
        UserError
            If the network lacks the cut, or a step has more samples than fit at the cut.
        """
        check_cut(self.mapping, split.cut)
        if split.cut and batch > (most := self.kept_samples(split.cut)):
            raise UserError(
                f"cut = {split.cut}: the core's cut_rows = {self.cut_rows} keep outputs of {most} samples, a batch of "
                f"{batch} needs {batch * self._rows_of_sample(split.cut)}: lower the batch, or take a core with more"
            )

    def step_registers(self, settings: StepSettings) -> dict[str, int]:
        """Values of a training command's registers from the settings of its steps."""
        split, rows = settings.split, len(self.mapping.parts(settings.split.cut)[-1].rows)
        return {
            "eps_shift": settings.eps_shift,
            "shift": settings.shift,
            "cut": split.cut,
            "p1": split.first,
            "p2": split.second,
            "gap": split.layout(self.mapping, self.source.period).spans[1] - rows,
            "scalars": int(settings.scalars),
        }

    @cached_property
    def layout(self) -> ZotrainLayout:
        return ZotrainLayout(self.mapping, self.source)

    @property
    def image_beats(self) -> Mapping[str, int | str]:
        layout = self.layout
        return {
            "parameters": self.forward.frozen_beats,
            "deltas": layout.delta_beats,
            "state": layout.state_beats,
        }

    @property
    def forward(self) -> NetworkMapping:
        return self.mapping.forward

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        rows, n, forward = self.mapping.delta_rows, self.source.width, self.forward
        shared = self.cut_rows if self.shares_rows else 0
        own_cut = [cut_memory(forward, self.cut_rows)] if self.cut_rows and not shared else []
        if self.loss == "mse":
            losses: tuple[MemoryShape, ...] = (target_memory(forward),)
        else:
            losses = (LABEL_MEMORY, *LossDifferenceSpec(classes=forward.stages[-1].channels).memories)
        return (
            *network_memories(forward, kept=len(forward.stages) - 1),
            *own_cut,
            *self.source.memories,
            *offset_memories(rows, n, self.parts),
            bias_offset_memory(rows),
            delta_memory(len(rows) * self.parts, -(-n // self.parts), shared),
            *losses,
            COEFFICIENT_MEMORY,
            *port_memories(self.reader, self.writer, self.memory_ports),
        )

    @property
    def dsps(self) -> int:
        """DSP slices of the array, of a product for each number read in a cycle, and of the losses."""
        return self.forward.dsps + -(-self.source.width // self.parts) + (2 if self.loss == "mse" else 1)

    def smaller(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Settings that need less memory: fewer rows at the cut, deltas in parts, folded rows, a smaller array."""
        halved = [self.cut_rows >> times for times in range(1, self.cut_rows.bit_length())]
        return {
            "cut_rows": [{"cut_rows": rows} for rows in (*halved, *([0] if self.cut_rows else []))],
            "deltas": [{"deltas": "ultra"}] if self.deltas == "block" else [],
            "fold": [] if self.fold else [{"fold": True, "cut_rows": 0}],
            **self.smaller_arrays(),
        }

    @property
    def cuts(self) -> int:
        """Number of allowed values of `cut`: 0, and each stage before which the core can cut the network."""
        return len(self.forward.stages) if self.cut_rows else 1

    @classmethod
    def for_network(cls, preset: dict[str, object], network: Network) -> dict[str, Any]:
        """Settings of a preset, changed to another network; an autoencoder has no cut."""
        settings = super().for_network(preset, network)
        if network.repeats_inputs:
            settings.pop("cut_rows", None)
        return settings

    @property
    def reader(self) -> AxiReadSpec:
        """Short FIFOs, to save block RAM: the next sample is read during thousands of cycles of the present sample."""
        return AxiReadSpec(address=self.address, burst=16, depth=32)

    @property
    def writer(self) -> AxiWriteSpec:
        return AxiWriteSpec(address=self.address, burst=16, depth=32)

    def cut_checks(self, train: Any, settings: Any) -> Iterator[Check]:
        """The engine's reasons to refuse the cut of a training."""
        cut, batch = settings.cut, settings.batch
        yield Check(train & (cut >= self.cuts), Error.BAD_CUT, cut)
        too_large = ((cut == stage) & (batch > self.kept_samples(stage)) for stage in range(1, self.cuts))
        yield Check(train & reduce(or_, too_large, False), Error.BAD_BATCH, batch)

    def uncut(self, settings: Any) -> Any:
        """Whether the second part has several perturbations although the cut is 0."""
        return (settings.p2 != 1) & (settings.cut == 0)
