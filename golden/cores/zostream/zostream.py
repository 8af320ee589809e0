"""`zostream`: zeroth-order training of transformers with weights in DRAM, with the integers of `golden.zo.job`.

The core is generated for an array and buffers, not for a network: a network is a program and a stream of weights in
memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, ClassVar

from ...axi.axi_read import AxiReadSpec
from ...axi.axi_write import AxiWriteSpec
from ...axi.bus import BEAT, reach
from ...axi.memories import port_memories
from ...errors import UserError
from ...memories.plan import MemoryShape
from ...rng.perturbation import check_full_rank
from ...rng.pezo import PezoSpec
from ...stream.engine.stream_engine import StreamEngineSpec
from ...stream.forward import IntegerTransformer
from ...stream.instruction import INSTRUCTION_BEATS, RowAddress
from ...stream.machine.core_size import LANES, CoreSize
from ...stream.machine.images import StreamImages
from ...stream.machine.layout import StreamLayout
from ...stream.machine.limits import Reason
from ...stream.machine.program import HEADER_BEATS, Program, ProgramError, program_of
from ...stream.machine.program_sequencer import ProgramSequencerSpec
from ...stream.norms import LARGEST_HIDDEN
from ...stream.weights.word_offsets import WordOffsetsSpec
from ...zo.coefficient import LABEL_MEMORY
from ...zo.loss_difference import LossDifferenceSpec
from ...zo.split import COEFFICIENT_MEMORY
from ...zo.step_settings import StepSettings
from ..core import Check, TransformerFit, core_buses
from ..shell import CoreRegisters
from ..zeroth_order.registers import Error
from ..zeroth_order.spec import ZerothOrderSpec
from .memory_layout import ZostreamLayout
from .pass_memory import pass_memory
from .registers import CORE, JOBS, STREAM_EPS_SHIFTS, Command
from .registers import Error as StreamError

MOST_FEATURES = 1 << 18
"""Most features of a token, plus one: a read command counts no more beats."""
MOST_KEPT = (1 << 16) - 1
"""Most values of a row at the cut: one read command reads the rows of both sides."""
TABLES = 2
"""Tables of deltas, one for each part of a network; a network without a cut uses one."""


@dataclass(frozen=True, kw_only=True)
class ZostreamSpec(ZerothOrderSpec):
    """Parameters of `zostream`.

    Parameters
    ----------
    lanes : int
        Size of the array of multipliers: inputs of a tile. Refused: other than 8, 16, 32 or 64.
    columns : int
        Size of the array of multipliers: outputs of a tile. Refused: other than 4, 8, 16 or 32; more than `lanes`.
    rows : int
        Rows of the activation memory, `lanes` values of 24 bits each. Refused: 0.
    wide_rows : int
        Rows of the memory for sums and for inputs of norms, `columns` values of 27 bits each. Refused: 0.
    sums : int
        Rows of partial sums: the maximum number of tokens of both sides on the chip at once. Refused: other than a
        power of two from 4 to 4,096.
    norm_lanes : int
        Values per cycle of a norm. Refused: other than 4, 8 or 16.
    features : int
        Maximum number of outputs of an operation with biases, factors or positions. Refused: more than 4,096.
    operations : int
        Maximum number of instructions of a program. Refused: more than 4,096.
    classes : int
        Maximum number of classes. Refused: more than 256, because a label has eight bits.
    ports : int
        AXI4 ports to the external memory, 1 or 2: with 2, bursts of the weight stream alternate between them. Refused:
        other than 1 or 2.
    generator : PezoSpec
        Generator of the perturbations: on the fly, so that its numbers repeat. Refused: a generator without replay; n
        numbers per cycle, if n and the size of a tile have a common factor; numbers that repeat after too many cycles,
        such as 14-bit numbers.

    Raises
    ------
    UserError
        For a value out of range, or sizes that do not fit together.
    """

    name: ClassVar[str] = "zostream"
    registers: ClassVar[CoreRegisters] = CORE
    jobs: ClassVar[tuple[IntEnum, ...]] = JOBS
    eps_shifts: ClassVar[Sequence[int]] = STREAM_EPS_SHIFTS
    summary: ClassVar[str] = "transformers that train by zeroth order from 4-bit weights in DRAM, behind AXI"
    monitored: ClassVar[tuple[str, ...]] = (*ZerothOrderSpec.monitored, "operation")

    presets: ClassVar[dict[str, dict[str, object]]] = {
        "tiny": {
            "lanes": 16,
            "columns": 4,
            "rows": 2048,
            "wide_rows": 2048,
            "sums": 64,
            "norm_lanes": 4,
            "features": 256,
            "operations": 64,
            "classes": 16,
        },
        "small": {},
        "fast": {"columns": 32, "wide_rows": 2048},
        "dual": {"columns": 32, "wide_rows": 2048, "ports": 2},
    }

    lanes: int = 32
    columns: int = 16
    rows: int = CoreSize.rows
    wide_rows: int = CoreSize.wide_rows
    sums: int = CoreSize.sums
    norm_lanes: int = 8
    features: int = LARGEST_HIDDEN
    operations: int = 512
    classes: int = 64
    ports: int = 1
    generator: PezoSpec = field(default_factory=PezoSpec)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ports not in (1, 2):
            raise UserError(f"ports = {self.ports}: give 1 or 2")
        if not self.generator.can_replay:
            raise UserError("generator.replay = false: a step takes its perturbation twice, so replay is needed")
        check_full_rank(self.generator, self.lanes * self.columns)
        _ = self.sequencer, self.offsets, self.losses, self.engine.parts  # these refuse what is out of range

    @cached_property
    def size(self) -> CoreSize:
        """Size of the core, for which programs are made."""
        return CoreSize(
            self.lanes,
            self.columns,
            self.rows,
            self.wide_rows,
            self.sums,
            self.ports,
            norm_lanes=self.norm_lanes,
        )

    @property
    def buses(self) -> dict[str, str]:  # type: ignore[override]
        return core_buses(self.ports)

    @property
    def address_buses(self) -> dict[str, str]:
        """Buses of any core; with two ports, `weights` is the second, and half of the weights use the first."""
        return super().address_buses | ({"weights": "m_axi_gmem1"} if self.ports == 2 else {})

    @cached_property
    def sequencer(self) -> ProgramSequencerSpec:
        """Block that holds the program."""
        return ProgramSequencerSpec(
            operations=self.operations,
            lanes=self.lanes,
            columns=self.columns,
            rows=self.rows,
            wide_rows=self.wide_rows,
            sums=self.sums,
            features=self.features,
        )

    @cached_property
    def offsets(self) -> WordOffsetsSpec:
        """Block that holds the deltas and their perturbation."""
        return WordOffsetsSpec(generator=self.generator, tables=TABLES)

    @cached_property
    def losses(self) -> LossDifferenceSpec:
        """Block that computes the loss differences."""
        return LossDifferenceSpec(classes=self.classes)

    @property
    def tokens(self) -> int:
        """Maximum number of tokens of a sentence, with both sides on the chip at once."""
        return self.sums // 2

    @cached_property
    def engine(self) -> StreamEngineSpec:
        """Blocks that run a program."""
        return StreamEngineSpec(self.size, self.features, self.generator.width, TABLES)

    @property
    def memories(self) -> tuple[MemoryShape, ...]:
        return (
            *self.engine.memories,
            *(shape for part in (self.sequencer, self.offsets, self.losses) for shape in part.memories),
            *self.generator.memories,
            pass_memory(self.tokens, reach(self.address)),
            LABEL_MEMORY,
            COEFFICIENT_MEMORY,
            *port_memories(self.reader, self.writer, self.ports, writing=1),
        )

    @property
    def dsps(self) -> int:
        """DSPs of the core: array, dequantisers, and the blocks after the array."""
        values = {"elementwise": 2 * LANES, "activations": LANES, "norm": 4 * self.norm_lanes + 11}
        attention = {"softmax": 2 * LANES + 1, "contexts": LANES, "rotary": 2 * LANES}
        others = {"L2 norm": LANES + 1, "offsets": 1, "places": 1, "losses": 1}
        behind = sum((values | attention | others).values())
        return self.lanes * self.columns + min(2 * self.columns, 32) + behind

    def smaller(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Settings that need less memory or fewer DSPs: fewer rows, features and sums, a smaller array."""
        least = {"rows": 1024, "wide_rows": 1024, "features": 1024, "sums": 32, "columns": 4}
        return {name: [{name: size} for size in _halves(getattr(self, name), end)] for name, end in least.items()}

    @property
    def times(self) -> int:
        """Number of rows of deltas: the period with which words share them."""
        return self.offsets.times

    @property
    def source(self) -> PezoSpec:
        return self.generator

    @cached_property
    def signature(self) -> int:
        """Value of the register ``signature``; `ports` counts only above 1, as older cores have no such parameter."""
        return self.signed(*(() if self.ports > 1 else ("ports",)))

    @property
    def reader(self) -> AxiReadSpec:
        """Reader of a port: long bursts for the weight stream."""
        return AxiReadSpec(address=self.address)

    @property
    def writer(self) -> AxiWriteSpec:
        """Writer of a port: short FIFOs, because it writes only records."""
        return AxiWriteSpec(address=self.address, burst=16, depth=32)

    @property
    def image_beats(self) -> Mapping[str, int | str]:
        """Beats of the images of program and generator state; the size of the deltas depends on the program."""
        return {"program": "program_beats", "state": -(-self.generator.state_bits // (8 * BEAT))}

    def layout(self, program: Program) -> ZostreamLayout:
        """Memory regions of a job with a program."""
        return ZostreamLayout(program, self.generator)

    def planned(self, transformer: IntegerTransformer) -> tuple[StreamLayout, Program]:
        """Stream layout of a transformer with NF4 matrices, and its program.

        Raises
        ------
        UserError
            If the core cannot run it.
        """
        matrices = frozenset(name for name in transformer.network.parameter_shapes if name[1] == "weight")
        stream = StreamLayout(transformer, matrices, self.size)
        program = program_of(stream, bytes(32))
        self.check_program(program, transformer.network.name)
        return stream, program

    @classmethod
    def runs(cls, transformer: IntegerTransformer) -> list[TransformerFit]:
        """Fit of a transformer with NF4 matrices on each preset."""
        fits = []
        for preset, settings in cls.presets.items():
            spec = cls(**settings)  # type: ignore[arg-type]
            fit = TransformerFit(cls.name, preset, spec, spec.size)
            try:
                _, program = spec.planned(transformer)
            except UserError as refused:
                fits.append(replace(fit, refusal=str(refused)))
            else:
                fits.append(replace(fit, longest=program.capacity // 2))
        return fits

    def check(self, images: StreamImages) -> None:
        """Refuse a network that the core cannot run: program, stream, or rows of deltas."""
        name = images.model.transformer.network.name
        self.check_program(images.program, name)
        images.check_stream()
        if images.model.times != self.times:
            raise UserError(f"{name} has deltas that return after {images.model.times} words, the core's {self.times}")

    @staticmethod
    def longest(images: StreamImages) -> int:
        """Maximum number of tokens of a network's sample, with both sides on the chip at once."""
        return images.program.capacity // 2

    def check_lengths(self, images: StreamImages, lengths: Sequence[int]) -> None:
        """Raise `UserError` for the first sample without tokens or with too many."""
        most = self.longest(images)
        for number, length in enumerate(lengths):
            if not 1 <= length <= most:
                raise UserError(
                    f"sample {number} has {length} tokens: the core has room for 1 to {most} of this network"
                )

    def check_program(self, program: Program, name: str) -> None:
        """Refuse a program that the core cannot run.

        Parameters
        ----------
        program : Program
        name : str
            Name of the network, for messages.

        Raises
        ------
        UserError
            If the program was made for a core of another size.
        ProgramError
            If the core would refuse the program; has the core's reason and the number of the operation.
        """
        if program.size != self.size:
            raise UserError(f"{name} was laid out for {program.size}; this core is {self.size}")
        count, limit = len(program.instructions), "the core was generated with"
        if count > self.operations:
            text = f"{name} has {count} operations: {limit} operations = {self.operations}"
            raise ProgramError(Reason.LENGTH, text)
        program.check(self.features)
        final = program.instructions[-1]
        place, inputs, size = RowAddress.of(final.destination), RowAddress.of(program.inputs), self.size
        width, rows = (size.columns, size.wide_rows) if inputs.wide else (size.lanes, size.rows)
        classes = f"classes = {self.classes}"
        cut_values = program.instructions[program.cut - 1].outputs if program.cut else 0
        end = (inputs.first + -(-program.features // width)) * program.capacity
        for reason, wrong, number, text in (
            (Reason.SIZE, final.outputs > self.classes, count - 1, f"has {final.outputs} classes: {limit} {classes}"),
            (Reason.SIZE, not 1 <= program.features < MOST_FEATURES, count - 1, f"takes {program.features} features"),
            (Reason.SIZE, cut_values > MOST_KEPT, count - 1, f"has {cut_values} values of a row that passes its cut"),
            (Reason.WORDS, not program.words + program.behind, count - 1, "has nothing that is tuned"),
            (Reason.FORMAT, place.wide or final.result_shift, count - 1, "has logits in another format than Q8.16"),
            (Reason.ROWS, end > rows, 0, f"has inputs up to row {end - 1}: the memory has {rows}"),
        ):
            if wrong:
                raise ProgramError(reason, f"{name} {text}", number)

    def check_steps(self, settings: StepSettings) -> None:
        """Raise `UserError` for settings of steps that the core cannot run: another loss, or eps out of range."""
        if settings.loss != "cross_entropy":
            raise UserError(f"loss = {settings.loss}: {self.name} has cross_entropy alone")
        if settings.eps_shift not in STREAM_EPS_SHIFTS:
            least, most = STREAM_EPS_SHIFTS[-1], STREAM_EPS_SHIFTS[0]
            raise UserError(
                f"eps = 2**-{settings.eps_shift} is not in 2**-{least} to 2**-{most}: with more a transformer's slope "
                "is not true"
            )

    def check_cut(self, settings: StepSettings, images: StreamImages) -> None:
        """Raise `UserError` if the steps have another cut than the program. With a forward cache, steps have no cut."""
        if settings.split.cut != (cut := 0 if images.cached else images.cut):
            name = images.model.transformer.network.name
            raise UserError(f"cut = {settings.split.cut}: the program of {name} was made for steps with cut = {cut}")

    def step_registers(self, settings: StepSettings, images: StreamImages) -> dict[str, int]:
        """Values of a training command's registers from the settings of its steps, see `check_cut`."""
        split = settings.split
        self.check_cut(settings, images)
        span = split.layout(images.model, self.generator.period).spans[1]
        return {
            "eps_shift": settings.eps_shift,
            "shift": settings.shift,
            "p1": split.first,
            "p2": split.second,
            "gap": span - len(images.model.parts(split.cut)[-1].rows),
            "scalars": int(settings.scalars),
            "cached": int(images.cached),
        }

    def checks(self, command: Any, settings: Any) -> Iterator[Check]:
        load, beats = command == Command.LOAD, settings.program_beats
        most_beats = HEADER_BEATS + INSTRUCTION_BEATS * self.operations
        yield Check(load & (beats == 0), Error.ZERO_LENGTH, beats)
        yield Check(load & (beats > most_beats), StreamError["PROGRAM_LENGTH"], beats)
        yield from super().checks(command, settings)

    def pass_checks(self, job: Any, settings: Any) -> Iterator[Check]:
        yield Check(job & (settings.cached > 1), Error.BAD_SPLIT, settings.cached)


def _halves(value: int, least: int) -> list[int]:
    """Repeated halves of a value, down to `least`."""
    return [value >> times for times in range(1, value.bit_length()) if value >> times >= least]
