"""Golden model of `zostream`: commands in integers, on a memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...axi.bus import BEAT
from ...errors import UserError
from ...fixed import Integers, Narrower
from ...stream.forward_cache import CachedModel
from ...stream.machine.images import StreamImages
from ...stream.machine.layout import HEADER_BEATS
from ...stream.machine.program import ProgramError, read_program
from ...stream.memory.samples import token_beats, tokens_of
from ...stream.transformer_model import TransformerModel, padded
from ...zo.job import ZerothOrderJob
from ...zo.model import PerturbedModel
from ...zo.split import Split
from ...zo.step_settings import StepSettings
from ..core import SettingValues
from ..golden_core import CommandError, CoreMemory
from ..zeroth_order.golden_core import GoldenZerothOrder
from .memory_layout import ZostreamLayout
from .registers import Command
from .zostream import ZostreamSpec


class GoldenZostream(GoldenZerothOrder[ZostreamSpec]):
    """Golden model of the core.

    Programs, samples and values at the cut are read from memory. The operations are those of a known network, selected
    by the digest in the program: a program alone does not run.

    Parameters
    ----------
    spec : ZostreamSpec
    networks : sequence of StreamImages
        Networks that a host may load.
    """

    def __init__(self, spec: ZostreamSpec, networks: Sequence[StreamImages] = ()) -> None:
        self._networks = {images.program.stream: images for images in networks}
        super().__init__(spec)

    def reset(self) -> None:
        """Forget program and deltas."""
        super().reset()
        self._images: StreamImages | None = None
        self._numbers: dict[bytes, int] | None = None
        self._cached = False

    def recover(self) -> None:
        """Forget program and deltas after any error."""
        self.reset()

    def know(self, images: StreamImages) -> None:
        """Add a network that a host may load."""
        self._networks[images.program.stream] = images

    @property
    def images(self) -> StreamImages:
        """Network of the loaded program; without a program a `CommandError`."""
        if self._images is None:
            raise CommandError("PROGRAM_NO_PROGRAM", 0)
        return self._images

    @property
    def layout(self) -> ZostreamLayout:
        return self.spec.layout(self.images.program)

    @property
    def labels(self) -> int:
        return self.images.program.instructions[-1].outputs

    @property
    def cut(self) -> int:
        """First operation of the second tuned part; 0 if only one part is tuned."""
        return 0 if self.images.cached else self.images.cut

    def split(self, settings: SettingValues) -> Split:
        return Split(self.cut, settings["p1"], settings["p2"])

    def step_registers(self, settings: StepSettings) -> dict[str, int]:
        return self.spec.step_registers(settings, self.images)

    def saturations(self, clipped: int, named: int) -> dict[str, int]:
        return {"saturations": named, "offsets_clipped": clipped - named}

    def carry_out(self, command: Command, settings: SettingValues, memory: CoreMemory) -> dict[str, int]:
        if command is not Command.LOAD:
            self._check(command, settings, memory)
        if command is Command.CACHE:
            return self._cache(settings, memory)
        self._settings, self._memory, self._trains = settings, memory, command is Command.TRAIN
        return super().carry_out(command, settings, memory)

    def _check(self, command: Command, settings: SettingValues, memory: CoreMemory) -> None:
        """Refuse a command that does not fit the program, and a memory without the program's weights."""
        images = self.images
        jobs = (Command.TRAIN, Command.INFER, Command.CACHE)
        self._cached = command in (Command.TRAIN, Command.INFER) and bool(settings["cached"])
        if command not in jobs:
            end = settings["deltas"] + self.layout.delta_beats * BEAT
            if end > 1 << self.spec.address:
                raise CommandError("BAD_ADDRESS", settings["deltas"])
            return
        if (command is Command.CACHE or self._cached) and not images.cached:
            raise CommandError("PROGRAM_CUT", 0)
        if command is Command.TRAIN and settings["p2"] != 1 and not self.cut:
            raise CommandError("BAD_SPLIT", settings["p2"])
        weights = images.weights[HEADER_BEATS * BEAT :]
        if memory.read(settings["weights"], weights.size).tobytes() != weights.tobytes():
            raise UserError(f"the image at weights is not that of the program's {self._name}: load its stream")
        self.model = CachedModel(images.model, images.cut) if self._cached else images.model

    @property
    def _name(self) -> str:
        return self.images.model.transformer.network.name

    def load(self, settings: SettingValues, memory: CoreMemory) -> PerturbedModel:
        """Load a program."""
        self._images = self._numbers = None
        image = memory.read(settings["program"], settings["program_beats"] * BEAT)
        try:
            program = read_program(image, self.spec.size)
            self.spec.check_program(program, "the program")
        except ProgramError as error:
            raise CommandError(f"PROGRAM_{error.reason.name}", error.number) from None
        images = self._networks.get(program.stream)
        if images is None or images.program != program:
            raise UserError("the golden core does not know the program's network: make GoldenZostream with its images")
        self._images = images
        return images.model

    def _head(self, index: int, settings: SettingValues, memory: CoreMemory) -> tuple[int, int, int]:
        """Address of a sample's first beat, its tokens, and the first beat of its slot in the cache of the cut."""
        entry = settings["index"] + 4 * index
        first = int(memory.read(entry - entry % BEAT, BEAT).view("<u4")[index % 4])
        address = settings["samples"] + first * BEAT
        tokens, slot, *_ = memory.read(address, BEAT).view("<u4").tolist()
        return address, tokens, slot

    def sample(self, index: int, settings: SettingValues, memory: CoreMemory) -> Integers:
        """Read a sample: a sentence's tokens, or rows in Q8.16."""
        model, program = self.images.model, self.images.program
        address, tokens, slot = self._head(index, settings, memory)
        if not 1 <= tokens <= program.capacity // 2:
            raise CommandError("BAD_TOKENS", tokens)
        size = tokens * token_beats(program.features) * BEAT
        rows = tokens_of(memory.read(address + BEAT, size), program.features)[:, : program.features]
        sample = rows if model.embeddings is None else self._tokens(rows, model.embeddings)
        if self._cached:
            image = self.layout.kept_image(self._passed(self.together([sample]), Narrower()))
            if memory.read(settings["cache"] + slot * BEAT, image.size).tobytes() != image.tobytes():
                raise UserError(f"what the cache has of sample {index} is not what passes the cut: run CACHE for it")
        self._places.append((slot, sample))
        return sample

    def _tokens(self, rows: Integers, embeddings: Integers) -> Integers:
        """Token numbers of embedding rows."""
        if self._numbers is None:
            self._numbers = {row.tobytes(): number for number, row in enumerate(embeddings)}
        tokens = [self._numbers.get(row.tobytes(), -1) for row in np.ascontiguousarray(rows, embeddings.dtype)]
        if min(tokens) < 0:
            raise UserError("a sample has rows that are no embedding of the network")
        return np.array(tokens)

    def together(self, samples: list[Integers]) -> Integers:
        return np.stack(samples) if self.images.model.embeddings is None else padded(samples)

    def steps(self, settings: SettingValues, memory: CoreMemory) -> Any:
        """Read the steps of the sample schedule; `_places` holds each sentence's cache slot and sample."""
        self._places: list[tuple[int, Integers]] = []
        for step in super().steps(settings, memory):
            yield step
            self._places = []

    def before_step(self, job: ZerothOrderJob, inputs: Integers) -> None:
        """Fill the forward cache without counting clipped values again, or write the last pass's values at the cut."""
        if isinstance(self.model, CachedModel):
            self.model.run(inputs, self.images.model.frozen, Narrower())
        elif self._trains and len(job.parts) > 1:
            *_, (start, _) = job.layout.positions(job.position)
            first, model = job.parts[0], self.images.model
            tables = [first.deltas.along(start, side) for side in (job.eps, -job.eps)]
            sides = [_rows(model, first.forward(inputs, table, Narrower()), inputs) for table in tables]
            for plus, minus, (slot, _) in zip(*sides, self._places, strict=True):
                both = np.stack([plus, minus], axis=1).reshape(-1, plus.shape[1])
                self._memory.write(self._settings["cache"] + slot * BEAT, self.layout.kept_image([both]))

    def _cache(self, settings: SettingValues, memory: CoreMemory) -> dict[str, int]:
        """Write each sample's values at the cut to the cache."""
        narrow = Narrower()
        for _, inputs in self.steps(settings, memory):
            for rows, (slot, _) in zip(self._passed(inputs, narrow), self._places, strict=True):
                memory.write(settings["cache"] + slot * BEAT, self.layout.kept_image([rows]))
        return self.saturations(narrow.saturations, sum(narrow.named.values()))

    def _passed(self, inputs: Integers, narrow: Narrower) -> list[Integers]:
        """Each sample's rows at the cut, for a frozen first part."""
        model = self.images.model
        return _rows(model, replace(model, last=self.images.cut).run(inputs, model.frozen, narrow), inputs)


def _rows(model: TransformerModel, passed: Integers, inputs: Integers) -> list[Integers]:
    """Each sample's rows at the cut: a row per token, or a single row after a pool."""
    pairs = zip(passed, model.lengths(inputs), strict=True)
    return [np.asarray(values[None] if values.ndim == 1 else values[:length]) for values, length in pairs]


GOLDEN = GoldenZostream
"""Golden model of the core, as `golden_core` finds it."""
