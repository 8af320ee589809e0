"""Wrong inputs: each core refuses its folder's wrong inputs, and an input with another end is detected."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fabtune.golden.cores.zeroth_order.registers import Command, Error
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.trials.contract import Ending, trials_of
from fabtune.sim.trials.endings import ending_findings

from ...small_cores import instantft, with_slow, zostream, zotrain

CORES: dict[str, Any] = {"instantft": instantft, "zotrain": zotrain, "zostream": zostream}


@pytest.mark.parametrize("name", with_slow(["instantft", "zotrain", "zostream"]))
def test_a_core_refuses_its_wrong_inputs(name: str) -> None:
    spec = CORES[name]()
    assert ending_findings(compiled_core(spec), spec, trials_of(spec).wrong_inputs(spec)) == []


@pytest.mark.parametrize("name", CORES)
def test_wrong_inputs_fit_the_registers(name: str) -> None:
    spec = CORES[name]()
    names, addresses = set(spec.registers.setting_names), {address.name for address in spec.registers.addresses}
    for one in trials_of(spec).wrong_inputs(spec):
        assert one.command in spec.registers.commands
        assert one.error in spec.registers.errors
        assert set(one.settings) <= names
        assert set(one.images) <= addresses


def order_lists(spec: ZotrainSpec) -> Iterator[Ending]:
    """Sample schedules with a wrong index and a wrong label; golden reports another error for the last."""
    label = spec.labels << 24
    for word, error, value in ((1, Error.BAD_INDEX, 1), (label, Error.BAD_LABEL, label), (1, Error.BAD_INDEX, 2)):
        order = np.array([1, word], "<u4").view(np.uint8)
        yield Ending(f"word {word}", Command.TRAIN, error, value, {"order": order})


def test_an_input_that_ends_otherwise_is_found() -> None:
    (found,) = ending_findings(compiled_core(zotrain()), zotrain(), order_lists(zotrain()))
    assert found.startswith(f"command {Command.TRAIN:d} with word 1: ")
    assert found.endswith(f"[{Error.BAD_INDEX:d}, 1], not [{Error.BAD_INDEX:d}, 2]")
