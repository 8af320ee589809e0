"""Tasks by name, on small generated files; tests on the real files need FABTUNE_DATA."""

import os
import struct
from pathlib import Path

import numpy as np
import pytest

from fabtune.golden.datasets.fan import stop_begins
from fabtune.golden.datasets.tasks import TASKS, network_for, task_of
from fabtune.golden.errors import UserError
from fabtune.golden.models.text import preset

RNG = np.random.default_rng(0)
NAMED = [name for name in TASKS if name != "npz:FILE"]
RUNS = ("silentA_1", "noisy_1", "noisy_2")


def write_mnist(folder, train=30, rest=1100, side=28):
    """The four files; pixel (0, 0) encodes the label, pixels (0, 1..2) the index."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", train), ("t10k", rest)):
        labels = RNG.integers(0, 10, count, np.uint8)
        images = np.zeros((count, side, side), np.uint8)
        images[:, 0, :3] = np.stack([labels, np.arange(count) // 256, np.arange(count) % 256], axis=1)
        for name, array in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
            head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
            (folder / name).write_bytes(head + array.tobytes())


def spectra(stop, noise=0.0):
    """A recording: three speeds, a spike while the fan stops, and rest from row `stop` on."""
    level = np.repeat([0.2, 0.15, 0.1, 0.05 if noise else 0.02], [60, 58, stop - 118, 235 - stop]) + noise
    level[stop - 1] *= 1.4
    return (level[:, None] * RNG.uniform(0.9, 1.1, (235, 512))).astype(np.float32)


def write_fan(path, **changes):
    arrays = {
        f"12cm_hmlo_{kind}_{run}": spectra(170 + number, 0.02 * run.startswith("noisy"))
        for number, (kind, run) in enumerate((kind, run) for kind in ("normal", "damage1", "damage2") for run in RUNS)
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **(arrays | changes))
    return arrays


def write_har(path, **changes):
    """Forty windows per subject and activity; feature 0 is the subject, feature 1 the row."""
    arrays = {}
    for part, subjects in (("train", (1, 25, 14, 16, 19)), ("test", (2, 9))):
        subject = np.repeat(subjects, 240)
        inputs = np.zeros((len(subject), 561), np.float32)
        inputs[:, 0], inputs[:, 1] = subject, np.arange(len(subject))
        labels = np.tile(np.repeat(np.arange(1, 7), 40), len(subjects))
        arrays |= {f"X_{part}": inputs, f"y_{part}": labels, f"subject_{part}": subject}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **(arrays | changes))


@pytest.fixture
def folder(tmp_path):
    """All files of all tasks."""
    write_mnist(tmp_path / "mnist")
    write_mnist(tmp_path / "fashion-mnist")
    write_fan(tmp_path / "cooling-fan" / "cooling_fan.npz")
    write_har(tmp_path / "har" / "har.npz")
    return tmp_path


@pytest.mark.parametrize("name", NAMED)
def test_every_task_fits_its_network(folder, name):
    task, network = task_of(name, folder), preset(network_for(name))
    assert task.name == name
    for part in (task.pretrain, task.tune, task.test):
        assert part.shape == network.input_shape
        assert part.labels.max() < network.classes
        assert part.inputs.dtype == (np.float32 if len(part.shape) == 1 else np.uint8)


def test_digits_need_no_files_and_split_by_seed():
    task, again, other = task_of("digits"), task_of("digits"), task_of("digits", seed=1)
    assert (len(task.pretrain), len(task.tune), len(task.test)) == (800, 500, 497)
    assert task.tune.inputs.max() == 255
    assert len(np.unique(task.tune.inputs)) == 17
    np.testing.assert_array_equal(task.tune.inputs, again.tune.inputs)
    assert (task.tune.labels != other.tune.labels).any()


@pytest.mark.parametrize("inside", ["mnist", "."])
def test_mnist_tunes_and_tests_on_different_test_images(tmp_path, inside):
    write_mnist(tmp_path / inside)
    task = task_of("mnist", tmp_path, seed=3)
    assert (len(task.pretrain), len(task.tune), len(task.test)) == (30, 1024, 76)
    both = np.concatenate([task.tune.inputs, task.test.inputs]).astype(int)
    assert sorted(both[:, 0, 0, 1] * 256 + both[:, 0, 0, 2]) == list(range(1100))
    for part in (task.pretrain, task.tune, task.test):
        np.testing.assert_array_equal(part.inputs[:, 0, 0, 0], part.labels)
    other = task_of("mnist", tmp_path, seed=4)
    assert (other.tune.inputs != task.tune.inputs).any()


def test_fashion_is_not_taken_for_mnist(tmp_path):
    write_mnist(tmp_path / "fashion-mnist")
    assert len(task_of("fashion-mnist", tmp_path / "fashion-mnist").pretrain) == 30
    with pytest.raises(UserError, match="has fashion-mnist, not mnist"):
        task_of("mnist", tmp_path / "fashion-mnist")


def test_mnist_of_another_size(tmp_path):
    write_mnist(tmp_path, rest=1024)
    with pytest.raises(UserError, match="1024 images, but 1024 are tuned on"):
        task_of("mnist", tmp_path)
    write_mnist(tmp_path, side=32)
    with pytest.raises(UserError, match="32 x 32 pixels instead of 28 x 28"):
        task_of("mnist", tmp_path)


@pytest.mark.parametrize("damage", [1, 2])
def test_fan_is_labelled_by_kind_and_rest(tmp_path, damage):
    arrays = write_fan(tmp_path / "cooling_fan.npz")
    task = task_of(f"fan-damage{damage}", tmp_path)
    for column, part in enumerate((task.pretrain, task.tune, task.test)):
        stops = [170 + column, 170 + 3 * damage + column]
        expected = [np.repeat([kind, 0], [stop, 235 - stop]) for kind, stop in zip((1, 2), stops, strict=True)]
        np.testing.assert_array_equal(part.labels, np.concatenate(expected))
        for rows, kind in ((slice(235), "normal"), (slice(235, 470), f"damage{damage}")):
            expected_inputs = arrays[f"12cm_hmlo_{kind}_{RUNS[column]}"][:, :256]
            np.testing.assert_array_equal(part.inputs[rows], expected_inputs)


def test_wrong_fan_files_are_refused(tmp_path):
    path = tmp_path / "cooling_fan.npz"
    key = "12cm_hmlo_damage1_noisy_2"
    for bad, says in (
        (np.zeros((235, 256), np.float32), "not float32"),
        (np.zeros((235, 512)), "not float32"),
        (np.full((235, 512), np.nan, np.float32), "NaN"),
        (np.full((235, 512), 0.3, np.float32), "does not come to rest"),
        (np.zeros((235, 512), np.float32), "does not come to rest"),
        (np.zeros((40, 512), np.float32), "not float32"),
    ):
        write_fan(path, **{key: bad})
        with pytest.raises(UserError, match=f"{key}.*{says}"):
            task_of("fan-damage1", tmp_path)
        assert len(task_of("fan-damage2", tmp_path).test) == 470


def test_har_tunes_on_the_first_windows(tmp_path):
    write_har(tmp_path / "har.npz")
    task = task_of("har", tmp_path)
    assert set(task.pretrain.inputs[:, 0]) == {1}  # subject 2 belongs to the official test set
    for subject in (9, 14, 16, 19, 25):
        for label in range(6):
            tune, test = (
                part.inputs[(part.inputs[:, 0] == subject) & (part.labels == label), 1]
                for part in (task.tune, task.test)
            )
            assert (len(tune), len(test)) == (35, 5)
            assert tune.max() < test.min()
    assert (len(task.tune), len(task.test)) == (1050, 150)


def test_wrong_har_files_are_refused(tmp_path):
    path = tmp_path / "har.npz"
    for changes, says in (
        ({"X_train": np.zeros((1200, 560), np.float32)}, "not float32"),
        ({"y_test": np.zeros(480)}, "y_test is float64"),
        ({"subject_test": np.zeros(479, int)}, "subject_test is int64"),
        ({"subject_test": np.repeat(2, 480)}, "no windows of subject 9"),
        ({"y_train": np.full(1200, 7)}, "label 6 of sample 0 is outside 0 to 5"),
    ):
        write_har(path, **changes)
        with pytest.raises(UserError, match=says):
            task_of("har", tmp_path)


def test_npz_drifts_like_any_other(tmp_path):
    images = RNG.integers(0, 256, (4, 1, 8, 8), np.uint8)
    path = tmp_path / "mine.npz"
    np.savez(path, x_tune=images, y_tune=np.arange(4), x_test=images, y_test=np.arange(4))
    task = task_of(f"npz:{path}", drift="rotate:90")
    np.testing.assert_array_equal(task.test.inputs, np.rot90(images, axes=(2, 3)))
    with pytest.raises(UserError, match="a scale has no meaning with bytes"):
        task_of(f"npz:{path}", scale=2)
    with pytest.raises(UserError, match="has no network of its own"):
        network_for(task.name)


@pytest.mark.parametrize("name", NAMED[1:])
def test_missing_files_are_listed_by_name(tmp_path, name):
    with pytest.raises(UserError, match=f"{name} needs files: .*--data-dir"):
        task_of(name)
    with pytest.raises(UserError, match=f"{name} needs .* in .*--data-dir") as caught:
        task_of(name, tmp_path)
    assert str(tmp_path) in str(caught.value)
    with pytest.raises(UserError, match="no such folder"):
        task_of(name, tmp_path / "absent")


def test_only_what_is_missing_is_called_missing(tmp_path):
    write_mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(UserError, match=r"not found: t10k-labels-idx1-ubyte \("):
        task_of("mnist", tmp_path)


@pytest.mark.parametrize("name", ["", "svhn", "npz", "fan-damage3"])
def test_an_unknown_task_lists_those_that_exist(name):
    for ask in (task_of, network_for):
        with pytest.raises(UserError, match=r"digits, mnist, .*npz:FILE"):
            ask(name)


def test_drifts_and_seeds_are_checked_before_files_are_read(folder):
    with pytest.raises(UserError, match="no drift"):
        task_of("mnist", drift="spin")
    with pytest.raises(UserError, match="at least 0"):
        task_of("mnist", seed=-1)
    with pytest.raises(UserError, match="is for images"):
        task_of("har", folder, drift="camera")


@pytest.fixture
def data():
    """The real files."""
    if "FABTUNE_DATA" not in os.environ:
        pytest.skip("needs the real data: set FABTUNE_DATA to a folder with mnist/, cooling-fan/, har/, ...")
    return Path(os.environ["FABTUNE_DATA"])


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("mnist", (60000, 1024, 8976)),
        ("fashion-mnist", (60000, 1024, 8976)),
        ("fan-damage1", (470, 470, 470)),
        ("fan-damage2", (470, 470, 470)),
        ("har", (5894, 1050, 696)),
    ],
)
def test_sizes_of_the_papers(data, name, sizes):
    task = task_of(name, data)
    assert (len(task.pretrain), len(task.tune), len(task.test)) == sizes


def test_rest_begins_where_it_was_seen(data):
    """Rest rows read by eye from the printed sums of every recording."""
    seen = {
        "normal": {
            "silentA_1": 177,
            "silentA_2": 179,
            "silentB_1": 177,
            "silentB_2": 176,
            "noisy_1": 177,
            "noisy_2": 178,
        },
        "damage1": {
            "silentA_1": 177,
            "silentA_2": 179,
            "silentB_1": 178,
            "silentB_2": 179,
            "noisy_1": 178,
            "noisy_2": 178,
        },
        "damage2": {
            "silentA_1": 177,
            "silentA_2": 178,
            "silentB_1": 178,
            "silentB_2": 181,
            "noisy_1": 178,
            "noisy_2": 180,
        },
    }
    with np.load(data / "cooling-fan" / "cooling_fan.npz") as arrays:
        found = {
            kind: {run: stop_begins(arrays[f"12cm_hmlo_{kind}_{run}"]) for run in runs} for kind, runs in seen.items()
        }
    assert found == seen
