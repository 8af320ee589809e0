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
