"""IDX files, valid and damaged."""

import gzip
import struct

import numpy as np
import pytest

from fabtune.golden.datasets.images import read_idx, read_pair
from fabtune.golden.errors import UserError

IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


def idx(array, magic=None):
    """The bytes of an IDX file."""
    head = bytes([0, 0, 8, array.ndim]) if magic is None else bytes(magic)
    return head + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def packed(content):
    """Gzip without a date: parallel runs then agree on the test parameters."""
    return gzip.compress(content, mtime=0)


@pytest.mark.parametrize("pack", [bytes, packed])
def test_reads_plain_and_gzipped_whatever_the_name(tmp_path, pack):
    path = tmp_path / "images.gz"
    path.write_bytes(pack(idx(IMAGES)))
    read = read_idx(path, 3)
    assert read.dtype == np.uint8
    assert read.flags.writeable  # PyTorch warns about read-only arrays
    np.testing.assert_array_equal(read, IMAGES)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "found nothing"),
        (b"\x89PNG", "not an IDX file"),
        (idx(IMAGES, (0, 0, 13, 3)), "type 0x0d"),
        (idx(IMAGES[0]), "2 dimensions instead of 3"),
        (idx(IMAGES)[:9], "truncated within the header"),
        (idx(IMAGES)[:-1], "only 23"),
        (idx(IMAGES) + b"\0", "the file has more"),
        (bytes([0, 0, 8, 3]) + b"\xff" * 12, "at most 1073741824 are read"),
        (
            bytes([0, 0, 8, 3]) + np.array([1 << 10] * 3, ">u4").tobytes(),
            "1073741824 values .*, the file has at most 17",
        ),
        (packed(bytes([0, 0, 8, 3]) + np.array([1 << 10] * 3, ">u4").tobytes()), "the file has at most"),
        (packed(idx(IMAGES))[:-9], "gzip file is truncated"),
        (packed(idx(IMAGES))[:-8] + bytes(8), "gzip file is corrupt"),
        (packed(idx(IMAGES))[:10] + b"\xff" * 20, "gzip file is corrupt"),
        (b"\x1f\x8b\x00", "gzip file is"),
    ],
)
def test_says_in_one_line_what_is_wrong(tmp_path, content, says):
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(UserError, match=says) as caught:
        read_idx(path, 3)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"absent: No such file"):
        read_idx(tmp_path / "absent", 3)


def test_images_and_labels_are_equally_many(tmp_path):
    images, labels = tmp_path / "images", tmp_path / "labels"
    images.write_bytes(idx(IMAGES))
    labels.write_bytes(idx(np.array([7, 9], np.uint8)))
    pair = read_pair(images, labels)
    assert pair.inputs.shape == (2, 1, 3, 4)
    assert pair.labels.tolist() == [7, 9]
    labels.write_bytes(idx(np.array([7, 9, 1], np.uint8)))
    with pytest.raises(UserError, match=r"2 images but .* 3 labels"):
        read_pair(images, labels)
