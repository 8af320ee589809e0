"""Parts of a block in other packages, found by the package of its spec only."""

import dataclasses
from typing import ClassVar

import pytest

from fabtune.golden.block import BusSpec
from fabtune.golden.nf4.nf4_quant import Nf4QuantSpec
from fabtune.golden.registry import BLOCKS, CORES
from fabtune.hw.nf4.nf4_quant import Nf4Quant


class Shallow(Nf4QuantSpec):
    """A block with other constants, for a proof."""

    waiting: ClassVar[int] = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class Own(BusSpec):
    """A block in a single file."""

    name: ClassVar[str] = "own"


def helper():
    """What `Own` has in the place of a bench."""


@pytest.mark.parametrize("name", BLOCKS)
def test_every_block_has_its_rtl(name):
    kind = "".join(word.capitalize() for word in name.split("_"))
    assert BLOCKS[name].part("hw", name, kind).__name__ == kind
    assert BLOCKS[name].area() == ("cores" if name in CORES else BLOCKS[name].__module__.split(".")[2])


@pytest.mark.parametrize("name", BLOCKS)
def test_no_two_memories_have_one_name(name):
    """A plan would confuse equally named memories."""
    names = [memory.name for memory in BLOCKS[name]().memories]
    assert len(names) == len(set(names))


def test_a_derived_spec_has_the_parts_of_the_named_one():
    assert Shallow.part("hw", "nf4_quant", "Nf4Quant") is Nf4Quant
    assert Shallow.area() == "nf4"


def test_a_spec_outside_golden_has_its_parts_in_its_own_file():
    assert Own.part("sim", "tb_own", "helper") is helper


@pytest.mark.parametrize(
    ("house", "module", "name"), [("hw", "gone", "Nf4Quant"), ("hw", "nf4_quant", "gone"), ("gone", "nf4_quant", "x")]
)
def test_what_is_not_there_is_none(house, module, name):
    assert Nf4QuantSpec.part(house, module, name) is None
