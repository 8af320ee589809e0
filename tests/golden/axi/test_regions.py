"""Placement of regions in device memory."""

import numpy as np

from fabtune.golden.axi.regions import ALIGNMENT, JobMemory, Region


def test_regions_do_not_overlap():
    memory = JobMemory(ALIGNMENT)
    assert memory.place(Region("cache", 40)) == 4096
    memory.place(Region.containing("cache", np.ones((3, 8), np.uint8)), "other")
    memory.place(Region("samples", 5000))
    memory.place(Region("logits", 16))
    assert memory.addresses == {"cache": 4096, "other": 8192, "samples": 12288, "logits": 20480}
    assert memory.end == 24576
    assert [*memory.images] == [8192]
    assert memory.images[8192].tolist() == [1] * 24


def test_the_image_ends_with_the_last_region_that_has_contents():
    memory = JobMemory()
    assert memory.image.size == 0
    memory.place(Region.containing("samples", np.full(5, 7, np.uint8)))
    memory.place(Region("cache", 40))
    memory.place(Region.containing("order", np.full(17, 9, np.uint8)))
    memory.place(Region("logits", 16))
    image = memory.image
    assert image.size == 8192 + 32  # whole beats
    assert (image[:5] == 7).all()
    assert (image[8192:8209] == 9).all()
    assert image.sum(dtype=int) == 5 * 7 + 17 * 9
