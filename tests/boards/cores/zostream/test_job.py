"""Host side of `zostream` on the golden core, compared with the integer job."""

from dataclasses import replace

import numpy as np
import pytest

from fabtune.boards.cores.zostream.job import StreamTrainer
from fabtune.boards.host.driver import Core, CoreError
from fabtune.golden.cores.zostream.golden_core import GoldenZostream
from fabtune.golden.cores.zostream.registers import CORE, Command, Error
from fabtune.golden.cores.zostream.zostream import ZostreamSpec
from fabtune.golden.errors import UserError
from fabtune.golden.stream.frozen_base import frozen_base
from fabtune.golden.stream.instruction import RowAddress
from fabtune.golden.stream.machine.images import StreamImages
from fabtune.golden.stream.machine.layout import HEADER_BEATS, digest
from fabtune.golden.stream.transformer_model import TransformerModel
from fabtune.golden.transformer.blocks import SelfAttention
from fabtune.golden.transformer.builder import INPUTS, TransformerBuilder
from fabtune.golden.zo.job import ZerothOrderJob
from fabtune.golden.zo.memory_layout import StepOrder
from fabtune.golden.zo.split import Split
from fabtune.golden.zo.step_settings import StepSettings
from tests.boards.played_core import PlayedDevice

SPEC = ZostreamSpec(**ZostreamSpec.presets["tiny"])
FEATURES, WORDS, CLASSES = 40, 9, 3
EPS_SHIFT, SHIFT, POSITION = 9, 24, 77


def images_of(seed=0, classes=CLASSES, size=SPEC.size, places=None, cut=0, **settings):
    """Images of a network with token inputs, one attention, and classes."""
    made, rng = TransformerBuilder("own", FEATURES), np.random.default_rng(seed)
    queries, keys, values = (made.linear(one, INPUTS, rng.normal(0, 0.2, (16, FEATURES))) for one in "qkv")
    mixed = made.attention("attention", (queries, keys, values), SelfAttention(2, 2, 8))
    made.linear("head", made.pool("mean", mixed, "mean"), rng.normal(0, 0.3, (classes, 16)), np.zeros(classes))
    base = frozen_base(*made.finish(), sensitive=places or {})
    settings |= {"sensitive": places, "tuned": places.__contains__} if places else {}
    embeddings = rng.integers(-(1 << 17), 1 << 17, (WORDS, FEATURES))
    given = {"times": 255, "lanes": size.lanes, "columns": size.columns} | settings
    return StreamImages.of(TransformerModel(base.transformer, base.integers, embeddings, **given), base, size, cut)


IMAGES = images_of()


class Case:
    """A core, its host with a network, and a job on sentences of 1 to 7 tokens."""

    def __init__(self, *networks, **settings):
        self.images = (networks or (IMAGES,))[0]
        self.core = GoldenZostream(SPEC, networks or (IMAGES,))
        self.played, rng = PlayedDevice(SPEC, self.core), np.random.default_rng(5)
        self.trainer = StreamTrainer(Core(CORE, self.played, self.played), SPEC, **settings)
        tokens, lengths = rng.integers(0, WORDS, (11, 7)), [1, 7, *rng.integers(1, 8, 9)]
        self.inputs = np.where(np.arange(7) < np.array(lengths)[:, None], tokens, -1)
        labels, batches = rng.integers(0, CLASSES, 11), (np.arange(4), np.arange(4, 8), np.array([3, 3, 10, 0]))
        self.steps = [StepOrder(one, labels[one], 60_000 - len(one)) for one in batches]

    def golden(self, **settings):
        """The integer job without host and core, and its projected gradients."""
        common = StepSettings(**({"eps_shift": EPS_SHIFT, "shift": SHIFT} | settings))
        job = ZerothOrderJob(self.images.model, SPEC.generator, common, POSITION)
        return job, [slope for one in self.steps for slope in job.step(self.inputs[one.indices], one.labels, one.rate)]

    def train(self, inputs=None, steps=None, position=POSITION, **settings):
        common = StepSettings(**({"eps_shift": EPS_SHIFT, "shift": SHIFT} | settings))
        inputs, steps = (own if given is None else given for given, own in ((inputs, self.inputs), (steps, self.steps)))
        return self.trainer.train(inputs, steps, common, position)


@pytest.mark.parametrize(
    "settings", [{}, {"shift": 15}, {"split": Split(0, 3), "scalars": True}, {"split": Split(5, 2, 3)}], ids=str
)
def test_a_job_through_the_driver_is_the_integer_job(settings):
    case = Case(images_of(cut=settings["split"].cut) if "split" in settings else IMAGES)
    job, slopes = case.golden(**settings)
    case.trainer.load(case.images)
    trained = case.train(**settings)
    activations = sum(job.saturated_places.values())
    assert trained.finished.counts == {
        "steps_done": 3,
        "saturations": activations,
        "offsets_clipped": job.saturations - activations,
        "coefficients_clipped": job.coefficients_clipped,
    }
    assert trained.position == job.position
    found = [(one.position, one.coefficient, one.difference, *one.words) for one in trained.slopes]
    assert found == [(one.position, one.coefficient, one.difference, *one.words) for one in slopes]
    assert np.array_equal(case.trainer.deltas(), job.rows)
    assert np.array_equal(case.trainer.logits(case.inputs), job.logits(case.inputs))
    assert case.played.commands == [Command.LOAD, Command.TRAIN, Command.SAVE_DELTAS, Command.INFER]


def test_another_network_takes_the_place_of_the_first():
    other = images_of(seed=1, classes=5, tuned=lambda name: name[0] == 5)
    case = Case(IMAGES, other)
    case.trainer.load(IMAGES)
    case.train()
    rows = case.trainer.deltas()
    case.trainer.load(other)
    assert not case.trainer.deltas().any()
    assert case.trainer.deltas().shape == (len(other.model.rows), 31) != rows.shape
    assert case.trainer.logits(case.inputs).shape == (11, 5)
    with pytest.raises(UserError, match=r"deltas of .* are not of this core"):
        case.trainer.load_deltas(rows)
    case.trainer.load(IMAGES)
    case.trainer.load_deltas(rows)
    assert np.array_equal(case.trainer.deltas(), rows)


def above(name):
    return name[0] == 5


@pytest.mark.parametrize("caches", [True, False])
def test_what_is_below_the_first_tuned_tensor_is_computed_once_a_sample(caches):
    case = Case(images_of(cut=5, tuned=above), caches=caches)
    _, slopes = case.golden()
    case.trainer.load(case.images)
    trained = case.train()
    assert [one.coefficient for one in trained.slopes] == [one.coefficient for one in slopes]
    if not caches:
        assert case.played.commands == [Command.LOAD, Command.TRAIN]
        assert trained.whole == trained.finished
        return
    # the steps use nine of the eleven samples
    assert case.played.kept == [*range(8), 10]
    both = [trained.finished.counts, trained.prepared.counts]
    assert trained.whole.counts == {name: sum(one[name] for one in both) for name in both[0]}
    assert case.train().prepared is None
    case.train(steps=step([9, 0, 9], [0, 0, 0]))
    assert case.played.kept == [9]
    case.trainer.logits(case.inputs[:2])
    assert case.train().prepared is None
    own = [Command.CACHE, Command.TRAIN]
    assert case.played.commands == [Command.LOAD, *own, Command.TRAIN, *own, Command.INFER, Command.TRAIN]
    case.trainer.forget()
    assert case.train().prepared


def test_steps_that_are_cut_elsewhere_than_the_program_are_refused():
    fixed = images_of(seed=1, cut=5, tuned=above)
    case = Case(images_of(cut=5), fixed)
    case.trainer.load(case.images)
    with pytest.raises(UserError, match=r"^cut = 0: the program of own was made for steps with cut = 5"):
        case.train()
    case.trainer.load(fixed)
    with pytest.raises(UserError, match=r"^cut = 5: the program of own was made for steps with cut = 0"):
        case.train(split=Split(5))


def test_an_error_of_a_program_has_its_name():
    case = Case()
    case.played.fault = Error["PROGRAM_OVERLAP"]
    with pytest.raises(CoreError, match="load ended with program_overlap"):
        case.trainer.load(IMAGES)
    case.played.fault = 0
    with pytest.raises(UserError, match="no network is loaded"):
        case.train()


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"size": replace(SPEC.size, sums=32)}, r"own was laid out for CoreSize\(.* sums=32"),
        ({"times": 31}, "own has deltas that return after 31 words, the core's 255"),
        ({"classes": 17}, "own has 17 classes: the core was generated with classes = 16"),
    ],
)
def test_a_network_that_is_none_of_the_core_s_is_refused(changed, text):
    case = Case()
    with pytest.raises(UserError, match=f"^{text}"):
        case.trainer.load(images_of(**changed))
    assert case.played.commands == []


def test_behind_an_error_the_network_is_to_be_loaded_again():
    case = Case()
    case.trainer.load(IMAGES)
    case.played.fault = Error.READ_SLVERR
    with pytest.raises(CoreError, match="train ended with read_slverr"):
        case.train()
    case.played.fault = 0
    for command in (case.train, case.trainer.deltas, lambda: case.trainer.logits(case.inputs)):
        with pytest.raises(UserError, match="no network is loaded: load its images first"):
            command()
    case.trainer.load(IMAGES)
    case.train()
    assert case.played.commands == [Command.LOAD, Command.TRAIN, Command.LOAD, Command.TRAIN]


@pytest.mark.parametrize(
    ("beat", "where"),
    [
        (IMAGES.program.instructions[0].beat, ", in the weights of operation 0 from tile 0 on"),
        (IMAGES.program.instructions[1].beat - 9, ", in the weights of operation 0 from tile 9 on"),
        (IMAGES.program.instructions[5].beat + 1, ", in the weights of operation 5 from tile 0 on"),
        (IMAGES.program.beats, ""),
        (-1, ""),
    ],
)
def test_a_burst_of_weights_that_fails_is_named_by_operation_and_tile(beat, where):
    case = Case()
    case.trainer.load(IMAGES)
    address = case.played.at("weights") + 16 * beat
    case.played.fault = Error.READ_DECERR
    case.played.fault_address = address
    with pytest.raises(CoreError, match=f"^train ended with read_decerr at {address:#010x}{where}$"):
        case.train()


def changed_program(**changes):
    return replace(IMAGES, program=replace(IMAGES.program, **changes))


def changed_instruction(number, **changes):
    instructions = list(IMAGES.program.instructions)
    instructions[number] = replace(instructions[number], **changes)
    return changed_program(instructions=tuple(instructions))


def changed_weights(at, value):
    weights = IMAGES.weights.copy()
    weights[at] ^= value
    return replace(IMAGES, weights=weights)


def sensitive_images(*entries):
    """Network with sensitive weights of the queries: addresses in the stream, values, and correct digests."""
    made = images_of(places={(0, "weight"): np.arange(len(entries))})
    weights, first = made.weights.copy(), 16 * (HEADER_BEATS + made.program.instructions[0].correction_beat)
    weights[first : first + 8 * len(entries)] = np.array(entries, "<i4").view(np.uint8).reshape(-1)
    stream = digest(weights[16 * HEADER_BEATS :])
    weights[16:48] = np.frombuffer(stream, np.uint8)
    return replace(made, weights=weights, program=replace(made.program, stream=stream))


WRONG_IMAGES = {
    "unknown operation": (lambda: changed_instruction(1, kind=77), "operation 1 of 6: kind 77 is unknown"),
    "overlap": (
        lambda: changed_instruction(0, destination=IMAGES.program.inputs),
        "operation 0 of 6: the result in rows .* overlaps source in rows",
    ),
    "size 0": (lambda: changed_instruction(2, inputs=0), "operation 2 of 6: 0 inputs and .* a size is 0"),
    "address": (lambda: changed_instruction(2, beat=10_000), "operation 2 of 6: beats 10000 to .* are outside"),
    "cut short": (
        lambda: changed_program(instructions=IMAGES.program.instructions[:-1]),
        "operation 4 of 5: the logits are those of the last operation",
    ),
    "inputs": (
        lambda: changed_program(inputs=RowAddress(False, 40).bits),
        "own has inputs up to row .*: the memory has 2048",
    ),
    "nothing tuned": (lambda: changed_program(words=0), "operation 0 of 6: word = 0 and .* words are outside 0"),
    "another model": (
        lambda: replace(IMAGES, weights=images_of(seed=1).weights),
        "own has a stream of weights of another model than its program: the digests differ",
    ),
    "a code": (lambda: changed_weights(-1, 1), "a stream's contents are not those of its digest: it was changed"),
    "unsorted": (
        lambda: sensitive_images((5, 1), (9, 1), (9, 2)),
        "own, operation 0 of 6: sensitive weight 2, 2 at place 9, is not behind the one before",
    ),
    "beyond": (
        lambda: sensitive_images((5, 1), (16 * 4 * 3 * 4, 1)),
        "own, operation 0 of 6: sensitive weight 1, 1 at place 768, is beyond a matrix of 16 x 40",
    ),
    "in a filler": (lambda: sensitive_images((2 * 64 + 4 * 8, 1)), "sensitive weight 0, 1 at place 160, is beyond"),
    "too large": (lambda: sensitive_images((5, 1 << 17)), r"131072 at place 5, is outside Q18\.0"),
}


@pytest.mark.parametrize("wrong", WRONG_IMAGES)
def test_images_that_are_wrong_are_refused_before_anything_is_written(wrong):
    made, text = WRONG_IMAGES[wrong]
    case = Case()
    case.trainer.load(IMAGES)
    with pytest.raises(UserError, match=text):
        case.trainer.load(made())
    assert case.played.commands == [Command.LOAD]
    assert not case.trainer.deltas().any()  # the previous network is still loaded


def test_sensitive_weights_in_order_are_taken():
    case = Case()
    images = sensitive_images((0, 1), (5, -(1 << 17)), (9 * 64, (1 << 17) - 1), (11 * 64 + 31, 2))
    case.core.know(images)
    case.trainer.load(images)


def step(indices=(0, 1), labels=(0, 1), rate=1):
    return [StepOrder(np.array(indices, int), np.array(labels, int), rate)]


MISTAKES = {
    "there are no steps": {"steps": []},
    "number of samples = 0": {"inputs": np.zeros((0, 3), int)},
    "own takes n x tokens from 0 to 8": {"inputs": np.array([[9]])},
    "own takes sentences of at least one token, not of 0": {"inputs": np.array([[-1]])},
    "sample 1 has 33 tokens: the core has room for 1 to 32": {"inputs": np.array([[1] + [-1] * 32, [1] * 33])},
    "an index of step 0 = 11 is not in 0 to 10": {"steps": step([0, 11])},
    "a label of step 0 = 3 is not in 0 to 2": {"steps": step(labels=[0, 3])},
    "position = 7905 is not in 0 to 7904": {"position": 7905},
    r"eps = 2\*\*-7 is not in 2\*\*-12 to 2\*\*-8": {"eps_shift": 7},
    "cut = 5: the program of own was made for steps with cut = 0": {"split": Split(5)},
    "loss = mse: zostream has cross_entropy alone": {"loss": "mse"},
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_before_anything_is_written(mistake):
    case = Case()
    case.trainer.load(IMAGES)
    memory = case.played.contents
    with pytest.raises(UserError, match=f"^({mistake})"):
        case.train(**MISTAKES[mistake])
    assert case.played.commands == [Command.LOAD]
    assert case.played.contents == memory
