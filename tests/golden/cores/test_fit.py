"""Settings that make a core fit: all are tried, and the mildest is found."""

from dataclasses import replace

import pytest

from fabtune.golden.cores.fit import remedies
from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.memories.plan import Device

NETWORK = "1x8x8 conv8k3p1 relu pool2 flatten fc32 relu fc10"


def within(bram36):
    """True if a core takes at most this many block RAMs on a device without UltraRAM."""
    return lambda spec: spec.memory_plan(Device(bram36, 0)).blocks.bram36 <= bram36


def blocks(spec):
    return spec.memory_plan(Device(912, 0)).blocks.bram36


def test_the_largest_batch_that_fits_is_found():
    spec = InstantftSpec(network=NETWORK, lanes=16, batch=200)
    most = blocks(InstantftSpec(network=NETWORK, lanes=16, batch=48))
    found = remedies(spec, within(most))
    assert {"batch": 48} in found
    assert blocks(InstantftSpec(network=NETWORK, lanes=16, batch=64)) > most


def test_changes_are_combined_where_none_is_enough():
    spec = ZotrainSpec(network=NETWORK, cut_rows=4096)
    alone = [change for changes in spec.smaller().values() for change in changes if "fold" not in change]
    single = min(blocks(replace(spec, **change)) for change in alone)
    found = remedies(spec, within(single - 1))
    assert found
    for changes in found:
        assert len(changes) > 1
        assert blocks(replace(spec, **changes)) < single


def test_there_may_be_none():
    assert remedies(ZotrainSpec(network=NETWORK), within(1)) == []


@pytest.mark.parametrize("spec", [InstantftSpec(cache="chip"), ZotrainSpec(cut_rows=100)], ids=lambda one: one.name)
def test_each_change_takes_less_or_is_refused(spec):
    assert all(changes for name, changes in spec.smaller().items() if name in ("batch", "cache", "cut_rows", "columns"))
    assert remedies(spec, within(blocks(spec))) != []
