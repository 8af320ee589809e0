"""Host side of zeroth-order training on the golden core, compared with the integer job."""

from dataclasses import dataclass

import numpy as np
import pytest

from fabtune.boards.cores.zotrain.job import ZerothOrderTrainer
from fabtune.boards.host.driver import Core, CoreError
from fabtune.golden.cores.zeroth_order.registers import Command, Error
from fabtune.golden.cores.zotrain.registers import CORE
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.errors import UserError
from fabtune.golden.fixed import q8_16_of_bytes
from fabtune.golden.nn.arithmetic.random_parameters import random_parameters
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.settings import build
from fabtune.golden.zo.job import ZerothOrderJob
from fabtune.golden.zo.memory_layout import StepOrder
from fabtune.golden.zo.network_model import NetworkModel
from fabtune.golden.zo.split import Split
from fabtune.golden.zo.step_settings import StepSettings
from tests.boards.played_core import PlayedDevice

SPEC = ZotrainSpec(network="1x6x7 conv3k3p1 relu pool2 conv6k2 relu flatten fc5 relu fc3", lanes=16)
WORDS_SPEC = ZotrainSpec(
    network="9 fc6 relu fc3",
    lanes=16,
    byte_inputs=False,
    generator=build(PezoSpec, ["pool.p=33", "pool.size=8415"], "pool"),
)
EPS_SHIFT, SHIFT = 9, 24
CLASSES = 3


@dataclass
class Case:
    """A core, its host, and a job."""

    played: PlayedDevice
    frozen: list
    trainer: ZerothOrderTrainer
    inputs: np.ndarray
    steps: list

    @classmethod
    def of(cls, spec):
        rng, shape = np.random.default_rng(5), spec.described.input_shape
        played, frozen = PlayedDevice(spec), random_parameters(spec.described, rng)
        trainer = ZerothOrderTrainer(Core(CORE, played, played), spec)
        inputs = rng.integers(0, 256, (11, *shape)) if spec.byte_inputs else rng.integers(-90_000, 90_000, (11, *shape))
        labels = rng.integers(0, CLASSES, 11)
        batches = np.arange(4), np.arange(4, 8), np.arange(8, 11), np.array([3, 3, 10, 0])
        return cls(played, frozen, trainer, inputs, [StepOrder(one, labels[one], 60_000 - len(one)) for one in batches])

    @property
    def values(self):
        return q8_16_of_bytes(self.inputs) if self.played.spec.byte_inputs else self.inputs

    def golden(self, **settings):
        """The integer job without host and core, and its projected gradients."""
        spec, common = self.played.spec, StepSettings(**({"eps_shift": EPS_SHIFT, "shift": SHIFT} | settings))
        job = ZerothOrderJob(NetworkModel(spec.mapping, self.frozen), spec.source, common, 77)
        steps = [job.step(self.values[one.indices], one.labels, one.rate) for one in self.steps]
        return job, [slope for step in steps for slope in step]

    def train(self, inputs=None, steps=None, position=77, **settings):
        inputs, steps = (own if given is None else given for given, own in ((inputs, self.inputs), (steps, self.steps)))
        common = StepSettings(**({"eps_shift": EPS_SHIFT, "shift": SHIFT} | settings))
        return self.trainer.train(inputs, steps, common, position)


@pytest.fixture(params=[SPEC, WORDS_SPEC], ids=["bytes, otf8", "words, pool"])
def case(request):
    return Case.of(request.param)


@pytest.mark.parametrize(("shift", "clips"), [(SHIFT, False), (15, True)])
def test_a_job_through_the_driver_is_the_integer_job(case, shift, clips):
    job, steps = case.golden(shift=shift)
    assert (job.saturations > 0, job.coefficients_clipped > 0) == (clips, clips)
    assert clips or len({step.coefficient for step in steps}) == 4
    case.trainer.load(case.frozen)
    trained = case.train(shift=shift)
    assert trained.finished.counts == {
        "steps_done": 4,
        "saturations": job.saturations,
        "coefficients_clipped": job.coefficients_clipped,
    }
    assert trained.position == job.position
    for mine, golden in zip(trained.slopes, steps, strict=True):
        assert (mine.position, mine.coefficient, mine.difference) == (
            golden.position,
            golden.coefficient,
            golden.difference,
        )
        assert np.array_equal(mine.probabilities, golden.probabilities)
    assert np.array_equal(case.trainer.deltas(), job.rows)
    assert np.array_equal(case.trainer.logits(case.inputs), job.logits(case.values))
    assert case.played.commands == [Command.LOAD, Command.TRAIN, Command.SAVE_DELTAS, Command.INFER]


@pytest.mark.parametrize("scalars", [False, True])
@pytest.mark.parametrize("split", [Split(first=2), Split(1, 2, 3), Split(2, 1, 2)], ids=str)
def test_perturbations_of_two_parts_through_the_driver(split, scalars):
    case = Case.of(ZotrainSpec(network=SPEC.network, lanes=16, columns=2, cut_rows=400))
    job, slopes = case.golden(split=split, scalars=scalars)
    case.trainer.load(case.frozen)
    trained = case.train(split=split, scalars=scalars)
    assert trained.position == job.position
    assert [one.coefficient for one in trained.slopes] == [one.coefficient for one in slopes]
    assert [one.position for one in trained.slopes] == [one.position for one in slopes]
    assert np.array_equal(case.trainer.deltas(), job.rows)


def test_deltas_are_loaded_and_forgotten(case):
    job, _ = case.golden()
    other = Case.of(case.played.spec)
    other.trainer.load(case.frozen)
    other.trainer.load_deltas(job.rows)
    assert np.array_equal(other.trainer.deltas(), job.rows)
    assert np.array_equal(other.trainer.logits(case.inputs), job.logits(case.values))
    other.trainer.load(case.frozen)
    assert not other.trainer.deltas().any()


def test_a_second_command_goes_on_where_the_first_ended(case):
    job, steps = case.golden()
    case.trainer.load(case.frozen)
    first = case.train(steps=case.steps[:2])
    second = case.train(steps=case.steps[2:], position=first.position)
    assert [one.coefficient for one in (*first.slopes, *second.slopes)] == [one.coefficient for one in steps]
    assert np.array_equal(case.trainer.deltas(), job.rows)


def test_more_samples_than_a_step_has_room_for(case):
    inputs = np.concatenate([case.inputs] * 30)
    case.trainer.load(case.frozen)
    found = case.trainer.logits(inputs)
    assert found.shape == (330, CLASSES)
    assert np.array_equal(found[297:308], case.trainer.logits(case.inputs))
    assert case.played.at("batch") == 11


def test_an_error_of_the_core_is_raised(case):
    case.played.fault = Error.BAD_LABEL
    with pytest.raises(CoreError, match="train ended with bad_label"):
        case.train()


def test_another_core_is_refused():
    played = Case.of(SPEC).played
    with pytest.raises(UserError, match=r"signature 0x.* instead of 0x.*: the bitstream is of other settings"):
        ZerothOrderTrainer(Core(CORE, played, played), WORDS_SPEC)


def test_positions_end_where_32_bits_do():
    spec = ZotrainSpec(network=SPEC.network, lanes=16, columns=2, gaussian="tree")
    case, span = Case.of(spec), Split().layout(spec.mapping, spec.source.period).span
    last = (1 << 32) - 1 - 3 * span
    with pytest.raises(UserError, match="position of the last step = 4294967296 is not in 0 to 4294967295"):
        case.train(position=last + 1)
    with pytest.raises(UserError, match="position = 4294967296 is not in 0 to 4294967295"):
        case.train(position=1 << 32)
    assert case.played.commands == []
    case.trainer.load(case.frozen)
    assert case.train(position=last).position == (1 << 32) - 1 + span


def step(indices=(0, 1), labels=(0, 1), rate=1):
    return [StepOrder(np.array(indices, int), np.array(labels, int), rate)]


MISTAKES = {
    "there are no steps": {"steps": []},
    "number of samples = 0": {"inputs": np.zeros((0, 1, 6, 7), int)},
    r"samples of \(1, 7, 6\) for 1x6x7": {"inputs": np.zeros((5, 1, 7, 6), int)},
    "number of samples of step 0 = 0 is not in 1 to 256": {"steps": step([], [])},
    "number of samples of step 0 = 257": {"steps": step([0] * 257, [0] * 257)},
    r"step 0 has indices \(2,\) and labels \(3,\)": {"steps": step(labels=[0, 0, 0])},
    "an index of step 0 = 11 is not in 0 to 10": {"steps": step([0, 11])},
    "an index of step 1 = -1": {"steps": step() + step([-1, 0])},
    "a label of step 0 = 3 is not in 0 to 2": {"steps": step(labels=[0, 3])},
    "a label of step 0 = -1": {"steps": step(labels=[-1, 0])},
    "rate of step 0 = 65536 is not in 0 to 65535": {"steps": step(rate=65536)},
    "rate of step 0 = -1": {"steps": step(rate=-1)},
    "position = 7905 is not in 0 to 7904": {"position": 7905},
    "position = -1": {"position": -1},
    "eps_shift = 3 is not in 4 to 12": {"eps_shift": 3},
    "eps_shift = 13": {"eps_shift": 13},
    "shift = 63 is not in 0 to 62": {"shift": 63},
    "cut = 1: the core's cut_rows = 0 keep outputs of 0 samples, a batch of 4 needs 72": {"split": Split(1)},
    "cut = 9: .* is cut at 0 to": {"split": Split(9)},
    "shift = -1": {"shift": -1},
    "loss = mse: the core was generated with loss = cross_entropy": {"loss": "mse"},
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_before_anything_is_written(mistake):
    case = Case.of(SPEC)
    memory = case.played.contents
    with pytest.raises(UserError, match=f"^{mistake}"):
        case.train(**MISTAKES[mistake])
    assert case.played.commands == []
    assert case.played.contents == memory


def test_samples_and_deltas_that_do_not_fit_are_refused():
    case = Case.of(SPEC)
    case.trainer.load(case.frozen)
    rows = case.trainer.deltas()
    for wrong, message in (
        (rows[:-1], "are not of this core"),
        (rows[:, :-1], "are not of this core"),
        (rows + (1 << 31), "a delta is outside Q4.28"),
        (rows - (1 << 31) - 1, "a delta is outside Q4.28"),
    ):
        with pytest.raises(UserError, match=message):
            case.trainer.load_deltas(wrong)
    for inputs, message in ((case.inputs[:0], "number of samples = 0"), (case.inputs[:, 0], "samples of")):
        with pytest.raises(UserError, match=message):
            case.trainer.logits(inputs)
    assert case.played.commands == [Command.LOAD, Command.SAVE_DELTAS]
