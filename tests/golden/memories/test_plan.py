"""Memory plan: kind of each memory by depth, device and the other memories."""

import pytest

from fabtune.golden.memories.blocks import Blocks
from fabtune.golden.memories.plan import Device, MemoryPlan, MemoryShape

WITH_ULTRA, WITHOUT = Device(144, 64), Device(912, 0)


def kinds(device, *memories):
    return list(MemoryPlan(device, memories).kinds.values())


@pytest.mark.parametrize(("depth", "kind"), [(32, "distributed"), (64, "distributed"), (65, "block")])
def test_a_shallow_memory_is_lut_ram(depth, kind):
    plan = MemoryPlan(WITH_ULTRA, (MemoryShape("one", depth, 24),))
    assert [*plan.kinds.values()] == [kind]
    assert (plan.blocks == Blocks()) == (kind == "distributed")


def test_a_deep_memory_is_ultra_ram_where_there_is_some():
    deep = MemoryShape("deep", 4096, 72, ultra=True)
    assert (kinds(WITH_ULTRA, deep), kinds(WITHOUT, deep)) == (["ultra"], ["block"])
    assert kinds(WITH_ULTRA, MemoryShape("table", 4096, 72, constant=True)) == ["block"]


def test_blocks_are_worth_what_the_device_has_of_them():
    # 2 block RAMs or 1 UltraRAM: 1.4 or 1.6 % of the device
    shallow = MemoryShape("shallow", 1024, 72, ultra=True)
    assert kinds(WITH_ULTRA, shallow) == ["block"]
    assert kinds(Device(144, 96), shallow) == ["ultra"]


def test_what_does_not_fit_in_one_kind_goes_into_the_other():
    shallow = [MemoryShape(f"shallow {number}", 512, 72 * 10, ultra=True) for number in range(3)]
    # block RAMs cost less here, but are too few
    assert sorted(kinds(Device(29, 15), *shallow)) == ["block", "block", "ultra"]
    assert kinds(Device(29, 0), *shallow) == ["block"] * 3


def test_copies_for_ports_and_memories_that_are_alike_are_counted():
    assert MemoryShape("two", 512, 36, count=3, reads=2).blocks("block") == Blocks(3)
    assert MemoryShape("shared", 2048, 128, reads=2, two_way=True).blocks("ultra") == Blocks(uram=2)


def test_a_memory_outside_the_plan_is_the_same_on_any_device():
    fifo, deep = MemoryShape("FIFO", 16, 36), MemoryShape("deep", 4096, 72, ultra=True)
    assert [MemoryPlan(WITH_ULTRA).kind(one) for one in (fifo, deep)] == ["distributed", "block"]
