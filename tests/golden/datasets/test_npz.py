"""A user's NPZ files, and malicious archives."""

import io
import pickle
import zipfile

import numpy as np
import pytest

from fabtune.golden.datasets.npz import inputs_of, npz, read_arrays
from fabtune.golden.errors import UserError

RNG = np.random.default_rng(0)
GOOD = {
    "x_train": RNG.normal(size=(6, 5)),
    "y_train": np.arange(6),
    "x_tune": RNG.normal(size=(4, 5)).astype(np.float16).astype(np.float64),
    "y_tune": np.array([0, 1, 2, 1], np.uint8),
    "x_test": RNG.normal(size=(3, 5)),
    "y_test": np.array([2, 0, 1], ">i2"),
}
IMAGE = np.zeros((4, 2, 3, 3), np.uint8)


def saved(tmp_path, save=np.savez, **changes):
    path = tmp_path / "mine.npz"
    save(path, **{key: value for key, value in (GOOD | changes).items() if value is not None})
    return path


def header(shape, dtype):
    """An NPY header without data."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_reads_floats_and_any_integers(tmp_path, save):
    task = npz(saved(tmp_path, save), classes=6)
    assert task.pretrain.inputs.dtype == np.float32
    np.testing.assert_array_equal(task.tune.inputs, GOOD["x_tune"].astype(np.float32))
    assert task.test.labels.dtype == np.int64
    assert task.test.labels.tolist() == [2, 0, 1]
    assert (len(task.pretrain), len(task.tune), len(task.test)) == (6, 4, 3)


@pytest.mark.parametrize("dtype", ["float16", "float64", ">f4"])
def test_floats_of_any_width(tmp_path, dtype):
    task = npz(saved(tmp_path, x_tune=GOOD["x_tune"].astype(dtype)))
    np.testing.assert_array_equal(task.tune.inputs, GOOD["x_tune"].astype(np.float32))


def test_a_scale_multiplies_floats(tmp_path):
    path = saved(tmp_path)
    plain, scaled = npz(path), npz(path, scale=0.1)
    for part in ("pretrain", "tune", "test"):
        own = getattr(plain, part).inputs * np.float32(0.1)
        np.testing.assert_array_equal(getattr(scaled, part).inputs, own)
        assert own.dtype == np.float32
    assert (plain.scale, scaled.scale) == (1, 0.1)
    np.testing.assert_array_equal(inputs_of(path, 0.1).inputs, scaled.test.inputs)
    with pytest.raises(UserError, match=r"mine\.npz, pretrain, scaled by 1e\+39: sample 0 has NaN or infinity"):
        npz(path, scale=1e39)


@pytest.mark.parametrize("factor", [0, -1, float("nan"), float("inf")])
def test_a_scale_is_above_0(tmp_path, factor):
    with pytest.raises(UserError, match=r"scale = .*: samples are multiplied by a factor above 0"):
        npz(saved(tmp_path), scale=factor)


def test_bytes_have_no_scale(tmp_path):
    pixels = RNG.integers(0, 256, IMAGE.shape, np.uint8)
    path = saved(tmp_path, x_tune=pixels, x_test=pixels[:3], x_train=None, y_train=None)
    for read in (npz, inputs_of):
        with pytest.raises(UserError, match=r"mine\.npz: a scale has no meaning with bytes, whose value is byte / 255"):
            read(path, scale=2)
    assert npz(path, scale=1).scale == 1


def test_columns_first_arrays_keep_their_order(tmp_path):
    task = npz(saved(tmp_path, x_tune=np.asfortranarray(GOOD["x_tune"])))
    np.testing.assert_array_equal(task.tune.inputs, GOOD["x_tune"].astype(np.float32))


def test_pixels_stay_bytes(tmp_path):
    pixels = RNG.integers(0, 256, IMAGE.shape, np.uint8)
    task = npz(saved(tmp_path, x_tune=pixels, x_test=pixels[:3], x_train=None, y_train=None))
    np.testing.assert_array_equal(task.tune.inputs, pixels)
    assert task.tune.inputs.dtype == np.uint8


def test_pretraining_is_optional(tmp_path):
    task = npz(saved(tmp_path, x_train=None, y_train=None))
    assert len(task.pretrain) == 0
    assert task.pretrain.shape == (5,)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"y_train": None}, "only one of them"),
        ({"x_test": None}, "no array x_test; it has x_train"),
        ({"x_tune": IMAGE[:, None]}, r"x_tune is \(4, 1, 2, 3, 3\), not .*\(n, channels, length\)"),
        ({"x_tune": np.zeros(4)}, r"x_tune is \(4,\), not"),
        ({"x_tune": np.zeros((4, 0))}, "x_tune is"),
        ({"x_tune": np.zeros((4, 5), np.int32)}, "x_tune is int32; save uint8 pixels or float"),
        ({"x_tune": np.zeros((4, 5), complex)}, "x_tune is complex128"),
        ({"x_tune": np.zeros((4, 6))}, r"x_test has samples float32 \(5,\), but x_tune float32 \(6,\)"),
        ({"x_tune": np.zeros((4, 5), np.uint8)}, "x_test has samples float32"),
        ({"x_tune": np.full((4, 5), np.nan)}, "sample 0 has NaN"),
        ({"x_tune": np.full((4, 5), 1e300)}, "sample 0 has NaN or infinity"),
        ({"x_tune": np.zeros((3, 5))}, "3 inputs but 4 labels"),
        ({"x_tune": np.zeros((0, 5)), "y_tune": np.zeros(0, int)}, "no samples"),
        ({"y_tune": np.array([0, 1, 6, 2])}, "label 6 of sample 2 is outside 0 to 5"),
        ({"y_tune": np.array([0, -1, 2, 2])}, "label -1 of sample 1"),
        ({"y_tune": np.array([0, 1, 2**63, 2], np.uint64)}, "a label 9223372036854775808"),
        ({"y_tune": np.zeros(4)}, "y_tune is float64"),
        ({"y_tune": np.eye(4, dtype=int)}, r"y_tune is int64 \(4, 4\), not integers \(n,\)"),
    ],
)
def test_says_what_is_wrong(tmp_path, changes, says):
    path = saved(tmp_path, **changes)
    with pytest.raises(UserError, match=says) as caught:
        npz(path, classes=6)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


class Trap:
    """Unpickling it fails the test."""

    def __reduce__(self):
        return pytest.fail, ("a pickle ran",)


@pytest.mark.parametrize("name", ["x_tune", "y_tune"])
def test_objects_are_refused_and_nothing_runs(tmp_path, name):
    path = saved(tmp_path, **{name: np.array([Trap()] * 4, object)})
    with pytest.raises(UserError, match=rf"{name} has Python objects"):
        npz(path)


def test_a_bare_pickle_is_no_npz(tmp_path):
    path = tmp_path / "mine.npz"
    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(UserError, match="not an NPZ file"):
        npz(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"absent\.npz: No such file"):
        npz(tmp_path / "absent.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_truncated_anywhere(tmp_path, save):
    whole = saved(tmp_path, save).read_bytes()
    path = tmp_path / "cut.npz"
    for length in range(0, len(whole), 101):
        path.write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"cut\.npz: not an NPZ file"):
            npz(path)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_one_wrong_byte_is_never_a_traceback(tmp_path, save):
    whole = saved(tmp_path, save).read_bytes()
    path = tmp_path / "flipped.npz"
    for place in range(0, len(whole), 13):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            task = npz(path)
        except UserError:
            continue
        else:  # unused bytes, such as a date
            np.testing.assert_array_equal(task.tune.inputs, GOOD["x_tune"].astype(np.float32))


def member(tmp_path, content):
    path = tmp_path / "odd.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a.npy", content)
    return path


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (header((10**12, 10**6), "<f8"), "but 0 bytes follow"),  # would allocate before reading
        (header((-1,), "<f8") + bytes(8), "the header says"),
        (header((2,), "<f8") + bytes(24), "but 24 bytes follow"),
        (header((2,), "<f8").replace(b"\x01\x00", b"\x03\x00", 1) + bytes(16), "NPY version 3.0"),
        (b"nothing", "damaged"),
        (header((2,), "<f8").replace(b"descr", b"de\x00cr") + bytes(16), "damaged"),
        (header((2,), "<f8").replace(b"(2,)", b"(2.)") + bytes(16), "damaged"),
    ],
)
def test_wrong_headers_are_refused(tmp_path, content, says):
    with pytest.raises(UserError, match=says):
        read_arrays(member(tmp_path, content), ["a"])


def test_a_directory_that_declares_more_than_the_file_can_hold(tmp_path):
    path = member(tmp_path, header((1 << 30, 1), "|u1"))
    whole = bytearray(path.read_bytes())
    at = whole.rindex(b"PK\x01\x02") + 24  # the uncompressed size
    whole[at : at + 4] = (int.from_bytes(whole[at : at + 4], "little") + (1 << 30)).to_bytes(4, "little")
    path.write_bytes(whole)
    with pytest.raises(UserError, match=rf"its {len(whole)} bytes cannot hold {(1 << 30) + 128}"):
        read_arrays(path, ["a"])


def test_arrays_are_of_the_machines_order_of_bytes(tmp_path):
    big = np.arange(6, dtype=">f4").reshape(2, 3)
    np.savez(tmp_path / "a.npz", a=big)
    found = read_arrays(tmp_path / "a.npz", ["a"])["a"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, big)


def test_archives_that_unpack_to_too_much(tmp_path, monkeypatch):
    path = saved(tmp_path, np.savez_compressed)
    monkeypatch.setattr("fabtune.golden.datasets.npz.LIMIT", 1000)
    assert set(read_arrays(path, ["x_tune"])) == {"x_tune"}  # only requested arrays count
    with pytest.raises(UserError, match="more than the limit of 1000"):
        npz(path)


def test_a_sample_of_one_dimension_has_a_height_of_1(tmp_path):
    values = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    np.savez(tmp_path / "mine.npz", x_test=values)
    found = inputs_of(tmp_path / "mine.npz")
    assert found.shape == (2, 1, 3)
    np.testing.assert_array_equal(found.inputs[:, :, 0], values)
