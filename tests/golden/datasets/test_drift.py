"""Image drifts."""

import numpy as np
import pytest

from fabtune.golden.datasets.dataset import Samples, Task
from fabtune.golden.datasets.drift import Drift, camera, rotate
from fabtune.golden.errors import UserError

RNG = np.random.default_rng(0)


def images(side=8, count=5, channels=1):
    return RNG.integers(0, 256, (count, channels, side, side), np.uint8)


def task(inputs):
    samples = Samples(inputs, np.zeros(len(inputs), np.int64))
    return Task("some", samples, samples, samples)


@pytest.mark.parametrize("side", [7, 8, 28])
@pytest.mark.parametrize("turns", [-1, 0, 1, 2, 3, 4, 5])
def test_quarter_turns_are_exact_and_counter_clockwise(side, turns):
    pixels = images(side, channels=2)
    turned = rotate(pixels, 90.0 * turns)
    assert turned.dtype == np.uint8
    np.testing.assert_array_equal(turned, np.rot90(pixels, turns, axes=(2, 3)))


def test_a_turn_by_another_angle_is_bilinear():
    """Compared with the definition, pixel by pixel."""
    pixels, degrees = images(9, 1), 30.0
    cos, sin, centre = np.cos(np.radians(degrees)), np.sin(np.radians(degrees)), 4.0
    for row in range(9):
        for column in range(9):
            # the y axis points up, row numbers increase downwards
            x, y = column - centre, centre - row
            from_x, from_y = cos * x + sin * y, -sin * x + cos * y
            u, v = centre - from_y, from_x + centre
            expected = 0.0
            if 0 <= u <= 8 and 0 <= v <= 8:
                i, j = min(int(u), 7), min(int(v), 7)
                a, b = u - i, v - j
                corners = pixels[0, 0, i : i + 2, j : j + 2]
                expected = (np.outer([1 - a, a], [1 - b, b]) * corners).sum()
            assert rotate(pixels, degrees)[0, 0, row, column] == np.rint(expected)


def test_more_images_than_go_at_once():
    pixels = images(4, 2500)
    np.testing.assert_array_equal(rotate(pixels, 90), np.rot90(pixels, axes=(2, 3)))


def test_float_images_are_not_rounded():
    values = RNG.normal(size=(3, 1, 6, 6)).astype(np.float32)
    turned = rotate(values, 90)
    assert turned.dtype == np.float32
    np.testing.assert_array_equal(turned, np.rot90(values, axes=(2, 3)))


def test_the_camera_sees_one_pixel_to_the_right_and_darker():
    pixels = np.full((200, 1, 8, 8), 200, np.uint8)
    seen = camera(pixels, np.random.default_rng(3)).astype(float)
    assert abs(seen[..., 1:].mean() - 160) < 1
    assert abs(seen[..., 1:].std() - 0.05 * 255) < 1
    # zeros enter from the left: half of the noise remains, the rest is clipped
    assert seen[..., 0].mean() < 10


@pytest.mark.parametrize("text", ["rotate:90", "camera"])
def test_only_tuning_and_test_samples_drift(text):
    before = task(images())
    after = Drift.parse(text).apply(before, seed=1)
    assert after.pretrain is before.pretrain
    for part in (after.tune, after.test):
        assert part.inputs.dtype == np.uint8
        assert (part.inputs != before.tune.inputs).any()
        assert part.labels is before.tune.labels


def test_no_drift_changes_nothing():
    before = task(images())
    assert Drift.parse("none").apply(before, 0) is before


def test_noise_follows_the_seed():
    before, drift = task(images()), Drift.parse("camera")
    first, again, other = (drift.apply(before, seed).test.inputs for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize(
    "text",
    ["", "spin", "rotate", "rotate:", "rotate:abc", "rotate:nan", "rotate:inf", "rotate:1e999", "camera:1", "none:"],
)
def test_an_unknown_drift_lists_those_that_exist(text):
    with pytest.raises(UserError, match="none, rotate:DEGREES, camera"):
        Drift.parse(text)


@pytest.mark.parametrize("text", ["rotate:90", "camera"])
def test_vectors_cannot_be_turned(text):
    with pytest.raises(UserError, match="is for images; some has samples of shape"):
        Drift.parse(text).apply(task(np.zeros((3, 5), np.float32)), 0)


def test_the_camera_takes_pixels_only():
    with pytest.raises(UserError, match="uint8 pixels"):
        Drift.parse("camera").apply(task(np.zeros((3, 1, 4, 4), np.float32)), 0)
