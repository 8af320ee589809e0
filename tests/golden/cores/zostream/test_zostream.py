"""Spec of `zostream`: sizes, refusals, registers of a step."""

import numpy as np
import pytest

from fabtune.boards.board import BOARDS
from fabtune.boards.fit import BoardFit
from fabtune.golden.cores.core import Refusal
from fabtune.golden.cores.zostream.registers import PROGRAM, REGISTERS, Command, Error
from fabtune.golden.cores.zostream.zostream import ZostreamSpec
from fabtune.golden.errors import UserError
from fabtune.golden.rng.pezo import PezoSpec
from fabtune.golden.rng.scale import ScaleSpec
from fabtune.golden.rng.urng import UrngSpec
from fabtune.golden.stream.machine.limits import Reason

USUAL = {"program_beats": 12, "sample_count": 1, "steps": 1, "batch": 1, "position": 0}
USUAL |= {"eps_shift": 10, "shift": 0, "p1": 1, "p2": 1, "gap": 0, "scalars": 0, "cached": 0}
USUAL |= {address.name: 0 for address in ZostreamSpec.registers.addresses}


@pytest.fixture(scope="module")
def tiny():
    return ZostreamSpec(**ZostreamSpec.presets["tiny"])


def test_every_reason_to_refuse_a_program_has_an_error_behind_the_others():
    assert {error.name: error.value for error in Error if error > PROGRAM} == {
        f"PROGRAM_{reason.name}": PROGRAM + reason for reason in Reason if reason
    }
    assert max(error for error in Error if error < PROGRAM) == Error.BAD_WEIGHTS
    assert max(Error) < 1 << 7
    assert [item.name for item in REGISTERS][7:9] == ["program", "program_high"]


@pytest.mark.parametrize(
    ("command", "changed", "refusal"),
    [
        (Command.LOAD, {}, None),
        (Command.LOAD, {"program_beats": 0}, (Error.ZERO_LENGTH, 0)),
        (Command.LOAD, {"program_beats": 7 + 5 * 64}, None),
        (Command.LOAD, {"program_beats": 7 + 5 * 64 + 1}, (Error["PROGRAM_LENGTH"], 328)),
        (Command.LOAD, {"program": 8}, (Error.BAD_ADDRESS, 8)),
        (Command.TRAIN, {"program": 8, "program_beats": 0}, None),
        (Command.TRAIN, {"index": 1 << 40}, (Error.BAD_ADDRESS, 1 << 40)),
        (Command.TRAIN, {"steps": 0}, (Error.ZERO_LENGTH, 0)),
        (Command.INFER, {"batch": 257}, (Error.BAD_BATCH, 257)),
        (Command.TRAIN, {"eps_shift": 7}, (Error.BAD_EPS, 7)),
        (Command.INFER, {"eps_shift": 7, "p1": 0}, None),
        (Command.TRAIN, {"eps_shift": 13}, (Error.BAD_EPS, 13)),
        (Command.TRAIN, {"shift": 63}, (Error.BAD_SHIFT, 63)),
        (Command.TRAIN, {"p1": 17}, (Error.BAD_SPLIT, 17)),
        (Command.TRAIN, {"p2": 0}, (Error.BAD_SPLIT, 0)),
        (Command.TRAIN, {"p1": 16, "p2": 5}, (Error.BAD_SPLIT, 5)),
        (Command.TRAIN, {"cached": 2}, (Error.BAD_SPLIT, 2)),
        (Command.CACHE, {"cached": 2}, (Error.BAD_SPLIT, 2)),
        (Command.CACHE, {"p1": 0, "p2": 0}, None),
        (Command.CACHE, {"cache": 8}, (Error.BAD_ADDRESS, 8)),
        (Command.TRAIN, {"gap": 64}, (Error.BAD_SPLIT, 64)),
        (Command.TRAIN, {"scalars": 2}, (Error.BAD_SPLIT, 2)),
        (9, {}, (Error.BAD_COMMAND, 9)),
    ],
)
def test_refusals(tiny, command, changed, refusal):
    assert tiny.refusal(command, USUAL | changed) == (refusal and Refusal(*refusal))


def test_a_position_is_below_the_period(tiny):
    period = tiny.generator.period
    assert tiny.refusal(Command.TRAIN, USUAL | {"position": period}) == Refusal(Error.BAD_POSITION, period)
    assert tiny.refusal(Command.TRAIN, USUAL | {"position": period - 1}) is None


@pytest.mark.parametrize("preset", ZostreamSpec.presets)
def test_presets_fit_on_the_boards(preset):
    spec = ZostreamSpec(**ZostreamSpec.presets[preset])
    assert (spec.size.lanes, spec.size.columns, spec.times) == (spec.lanes, spec.columns, 255)
    assert not BoardFit(spec, BOARDS["kv260"]).lacks
    assert not BoardFit(spec, BOARDS["zcu102"]).lacks


def test_a_core_that_is_too_large_says_what_fits():
    text = BoardFit(ZostreamSpec(columns=32, rows=32_768), BOARDS["zcu102"]).text
    assert text.endswith("; it fits with --set rows=16384, or with --set wide_rows=2048, or with --set sums=64")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"lanes": 12}, "lanes = 12"),
        ({"columns": 64}, "columns = 64"),
        ({"sums": 100}, "sums = 100"),
        ({"classes": 300}, "classes = 300"),
        ({"norm_lanes": 5}, "lanes = 5"),
        ({"rows": 0}, "rows = 0"),
        ({"ports": 3}, "ports = 3: give 1 or 2"),
        ({"generator": PezoSpec(scale=ScaleSpec(urng=UrngSpec(bits=14)))}, "numbers return after 16383 cycles"),
        ({"generator": PezoSpec(replay=False)}, "replay"),
    ],
)
def test_what_does_not_fit_together_is_refused(settings, text):
    with pytest.raises(UserError, match=text):
        ZostreamSpec(**settings)


def test_the_signature_tells_cores_apart_that_a_host_must_not_confuse(tiny):
    settings = ZostreamSpec.presets["tiny"]
    assert ZostreamSpec(**settings, monitor=True).signature == tiny.signature
    assert ZostreamSpec(**(settings | {"sums": 32})).signature != tiny.signature
    assert ZostreamSpec(**(settings | {"ports": 2})).signature != tiny.signature
    assert np.uint32(tiny.signature) == tiny.signature
