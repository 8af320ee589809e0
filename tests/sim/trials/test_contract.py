"""Stress tests work through the contract: each core's folder provides it, and no other file names a core."""

from pathlib import Path

import pytest

from fabtune.golden.block import BusSpec
from fabtune.golden.cores.core import CoreSpec
from fabtune.golden.errors import UserError
from fabtune.golden.registry import BLOCKS, CORES
from fabtune.sim.compiled.activity import ActivityJob, activity_of
from fabtune.sim.trials.contract import Ending, trials_of

from ...small_cores import instantft, zostream, zotrain

SIM = Path(__file__).parents[3] / "sim"
SMALL = {"instantft": instantft, "zotrain": zotrain, "zostream": zostream}


@pytest.mark.parametrize("name", SMALL)
def test_a_core_has_trials_that_fit_its_registers(name: str) -> None:
    spec = SMALL[name]()
    trials, names = trials_of(spec), set(spec.registers.setting_names)
    assert {trials.command, *trials.loads} <= set(spec.registers.commands)
    addresses = {address.name for address in spec.registers.addresses}
    assert set(trials.usual(spec)) <= names - (addresses - set(trials.images(spec)))
    assert set(trials.images(spec)) <= addresses
    assert all(set(one) <= names for one in trials.together(spec, [1, 2]))
    entries: list[Ending] = list(trials.entries(spec))
    assert {entry.error for entry in entries} >= {None, spec.registers.errors["BAD_INDEX"]}
    assert all(set(entry.settings) <= names for entry in entries)
    assert trials.short(spec)


@pytest.mark.parametrize("name", CORES)
def test_a_core_has_a_job_whose_toggles_are_counted(name: str) -> None:
    spec = SMALL[name]()
    usual, most = activity_of(spec).batches(spec)
    assert usual <= most == ActivityJob(batch=most).check(spec)


class Bare(CoreSpec):
    """A core without folders."""

    name = "bare"


Bare.__abstractmethods__ = frozenset()


def test_what_has_none_is_refused_by_name() -> None:
    bare = Bare()  # type: ignore[abstract]
    with pytest.raises(UserError, match="bare has no trials"):
        trials_of(bare)
    with pytest.raises(UserError, match="bare has no job whose toggles are counted"):
        activity_of(bare)
    others = [spec for name, spec in BLOCKS.items() if name not in CORES and issubclass(spec, BusSpec)]
    assert not [spec.name for spec in others if spec.part("sim", "trials", "TRIALS")]


def test_trials_name_no_core() -> None:
    for path in (SIM / "trials").glob("*.py"):
        text = path.read_text()
        assert "cores." not in text.replace("golden.cores.core", "").replace("golden.cores.shell", ""), path
        assert not [name for name in CORES if name in text.lower()], path
