"""`word_offsets` compared with the integer job on small transformers: complete steps, all words, images; refusals."""

import numpy as np
import pytest

from fabtune.golden.cores.zotrain.memory_layout import ZotrainLayout
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import Narrower
from fabtune.golden.rng.gaussian_array import GaussianArraySpec
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.stream.forward import is_weight
from fabtune.golden.stream.weights.word_offsets import OffsetCommand, WordOffsetsSpec
from fabtune.golden.zo.deltas import DELTA, Deltas, PerturbationTable
from fabtune.golden.zo.job import ZerothOrderJob
from fabtune.golden.zo.memory_layout import ZerothOrderLayout
from fabtune.golden.zo.step_settings import StepSettings

from ....own_transformers import SOURCE, TIMES, decoder, encoder, integer_model, sentences

SPEC = WordOffsetsSpec()
POOL = build(PezoSpec, ["p=32"], "pool")


class Commands:
    """Commands of a block, with their input words."""

    def __init__(self, spec=SPEC):
        self.spec, self.commands = spec, []
        self.numbers, self.images = [np.zeros(0, np.int64)], []

    def add(self, kind, count, **fields):
        self.commands.append({"kind": kind, "count": count, **fields})

    def perturb(self, position, count, **fields):
        self.numbers.append(position + np.arange(count))
        self.add(OffsetCommand.PERTURB, count, **fields)

    def load(self, image):
        self.images.append(image)
        self.add(OffsetCommand.LOAD, len(image) * 4 // self.spec.row_words)

    def run(self):
        names = [one.name for one in self.spec.streams()["command"].fields]
        command = {name: np.array([[one.get(name, 0)] for one in self.commands]) for name in names}
        words = self.spec.generator.words_at(np.concatenate(self.numbers))
        u = words if isinstance(words, dict) else {"number": words}
        image = np.concatenate([np.zeros((0, 4), np.int64), *self.images])
        return self.spec.run({"command": command, "u": u, "load": {"delta": image}}, 0)


def request(commands, model, eps):
    """Request the offsets of all words, tensor by tensor."""
    for name, place in model.order.places.items():
        fraction = model.transformer.format_of(name).fraction
        settings = {"fraction": fraction, "wide": int(not is_weight(name)), "factor": eps}
        commands.add(OffsetCommand.OFFSETS, len(place), word=place.start, **settings)


def moved(model, offsets):
    """Parameters plus the block's offsets, saturated."""
    found = dict(model.frozen)
    for name, place in model.order.places.items():
        form, own = model.transformer.format_of(name), model.order.gathered(name, offsets[place.start : place.stop])
        found[name] = np.clip(model.frozen[name] + own, form.minimum, form.maximum)
    return found


def large(rng, shape):
    """Deltas of all magnitudes, with both limits."""
    some = rng.integers(DELTA.minimum, DELTA.maximum, shape, endpoint=True) >> rng.integers(0, 20, shape)
    return np.where(rng.random(shape) < 0.1, rng.choice([DELTA.minimum, DELTA.maximum], shape), some)


@pytest.mark.parametrize(
    ("made", "size", "extreme"),
    [(encoder, (32, 16), False), (decoder, (4, 2), False), (encoder, (8, 2), True)],
)
def test_two_steps_are_those_of_the_job(made, size, extreme):
    """Parameters of both sides before each update, clipped offsets, and the updated deltas."""
    tokens, embeddings, labels = sentences(count=4)
    model = integer_model(made(), embeddings=embeddings, lanes=size[0], columns=size[1])
    assert (model.words > 2 * TIMES) == (size != (32, 16))
    rows = len(model.rows)
    settings = StepSettings(eps_shift=6)
    rates, settings = settings.with_rates([0.05] * 2, [4] * 2, PerturbationTable(SOURCE))
    total = large(np.random.default_rng(1), (TIMES, 31)) if extreme else None
    job = ZerothOrderJob(model, SOURCE, settings, position=7000, deltas=total)
    layout = ZerothOrderLayout(range(rows), SOURCE, 1)
    commands, expected, images, clipped = Commands(), [], [], []
    commands.load(layout.deltas(job.rows).image.view("<i4").reshape(-1, 4))
    for rate in rates:
        position, narrow = job.position, Narrower()
        (part,) = job.parts
        tables = [part.deltas.along(position, side) for side in (job.eps, -job.eps)]
        expected.append([model.parameters(part.offsets(table, narrow)) for table in tables])
        clipped.append(narrow.saturations)
        (slope,) = job.step(tokens, labels, rate)
        commands.perturb(position, rows, factor=job.eps)
        request(commands, model, job.eps)
        commands.add(OffsetCommand.UPDATE, rows, factor=slope.coefficient)
        commands.add(OffsetCommand.SAVE, rows)
        assert slope.coefficient
        images.append(layout.deltas(job.rows).image)
    found = commands.run()
    sides = [found["offsets"][name].reshape(2, model.words, 31) for name in ("plus", "minus")]
    for step, parameters in enumerate(expected):
        for one, offsets in zip(parameters, sides, strict=True):
            ours = moved(model, offsets[step])
            assert all((ours[name] == one[name]).all() for name in one)
    saved = found["save"]["delta"].astype("<i4").view(np.uint8).reshape(2, -1)
    assert (saved == np.stack(images)).all()
    counted = found["done"]["clipped"][[1, 4], 0].tolist()
    assert counted == clipped
    assert (min(clipped) > 0) == extreme


@pytest.mark.parametrize("source", [SOURCE, POOL])
def test_words_of_any_number(source):
    """Distant words: generator numbers at the perturbation's position for this word."""
    spec, rng = WordOffsetsSpec(generator=source), np.random.default_rng(2)
    table, position = PerturbationTable(source), 123
    eps = 1 << (DELTA.fraction - table.fraction)
    commands, words = (
        Commands(spec),
        [0, spec.times - 2, 12_345, (1 << 32) - 3, *rng.integers(1 << 32, size=5).tolist()],
    )
    commands.add(OffsetCommand.CLEAR, spec.times)
    commands.perturb(position, spec.times)
    for word in words:
        commands.add(OffsetCommand.OFFSETS, 3, word=word, fraction=table.fraction, wide=1, factor=eps)
    found = commands.run()["offsets"]
    drawn = np.concatenate([source.draw((position + word) % source.period, 3) for word in words])
    assert (found["plus"] == table.narrowed(drawn)).all()
    assert (found["minus"] == -found["plus"]).all()


def test_both_tables_are_their_own():
    spec = WordOffsetsSpec(tables=2)
    commands, position = Commands(spec), [5, 900]
    deltas = [Deltas(PerturbationTable(SOURCE)) for _ in range(2)]
    for table in range(2):
        commands.add(OffsetCommand.CLEAR, TIMES, table=table)
        commands.perturb(position[table], TIMES, table=table)
    for table, coefficient in ((1, 7000), (0, -300), (1, 5)):
        commands.add(OffsetCommand.UPDATE, TIMES, factor=coefficient, table=table)
        deltas[table].add(position[table], coefficient)
    for table in range(2):
        commands.add(OffsetCommand.SAVE, TIMES, table=table)
    saved = commands.run()["save"]["delta"].reshape(2, TIMES, 32)[:, :, :31]
    assert all((saved[table] == own.perturbation.spread(own.total, TIMES)).all() for table, own in enumerate(deltas))


def test_an_image_is_that_of_the_other_core():
    """Delta bytes of a zotrain core are loaded and saved unchanged."""
    assert issubclass(ZotrainLayout, ZerothOrderLayout)
    rows = large(np.random.default_rng(3), (9, 31))
    image = ZerothOrderLayout(range(9), SOURCE, 1).deltas(rows).image
    commands = Commands()
    commands.load(image.view("<i4").reshape(-1, 4))
    commands.add(OffsetCommand.SAVE, 9)
    assert commands.run()["save"]["delta"].astype("<i4").tobytes() == image.tobytes()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"generator": GaussianArraySpec(n=31)}, "gaussian_array does not return to its numbers: each word would need"),
        ({"generator": build(PezoSpec, [], "otf14")}, "return after 16383 cycles: 16383 rows of 32 deltas are more"),
        ({"generator": build(PezoSpec, ["scale.urng.n=1", "scale.urng.allow_power_of_two=true"])}, "1 number a cycle"),
        ({"tables": 3}, "tables = 3"),
        ({"tables": 0}, "tables = 0"),
    ],
)
def test_limits(settings, message):
    with pytest.raises(UserError, match=message):
        WordOffsetsSpec(**settings)


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        (7, {"count": 1}, "kind = 7 is not in 0 to 6"),
        (OffsetCommand.CLEAR, {"count": TIMES + 1}, "CLEAR of 256 rows: there are 255"),
        (OffsetCommand.OFFSETS, {"count": 1, "fraction": 18}, "fraction = 18 is not in 0 to 17"),
        (OffsetCommand.OFFSETS, {"count": 3, "word": TIMES - 1}, "OFFSETS of row 254: only 4 rows have been set"),
        (OffsetCommand.OFFSETS, {"count": 4, "factor": 1}, "OFFSETS of row 3: only 0 rows have been set"),
        (OffsetCommand.UPDATE, {"count": 4, "factor": 1}, "UPDATE of row 3: only 0 rows"),
        (OffsetCommand.SAVE, {"count": 5}, "SAVE of row 4: only 4 rows"),
    ],
)
def test_commands_that_are_refused(kind, fields, message):
    commands = Commands()
    commands.add(OffsetCommand.CLEAR, 4)
    commands.add(kind, **fields)
    with pytest.raises(UserError, match=message):
        commands.run()
