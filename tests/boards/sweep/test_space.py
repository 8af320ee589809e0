"""Valid sweep descriptions, and one-line errors for all others."""

import re

import pytest

from fabtune.boards.sweep.design import check
from fabtune.boards.sweep.space import Choices, Range, read
from fabtune.golden.errors import UserError

CORE = {"block": '"zotrain"', "objectives": '["cycles"]', "sweep__settings": "\nlanes = [16, 32]\n"}


def test_a_space_is_read(space_of):
    space = space_of(settings="\nn = 15\n", board='"kv260"')
    assert (space.name, space.block, space.objectives, space.board) == ("space", "urng", ("lut", "ff"), "kv260")
    assert space.parameters == {"settings.bits": Choices((8, 10)), "settings.leap": Range(1, 3)}
    assert (space.total, len(list(space.grid())), space.directions) == (6, 6, ["minimize"] * 2)
    point = space.point({"settings.bits": 10, "settings.leap": 2})
    assert point.settings == {"n": 15, "bits": 10, "leap": 2}


def test_a_name_may_be_the_last_part_of_a_path(space_of):
    space = space_of(block='"scale"')
    assert list(space.parameters) == ["settings.urng.bits", "settings.urng.leap"]


def test_a_network_of_the_command_takes_the_place_of_the_file_s(tmp_path):
    file = tmp_path / "space.toml"
    file.write_text(
        'block = "zotrain"\nobjectives = ["cycles"]\n[training]\nmodel = "a.py:build"\ndata = "digits"\n'
        "[sweep.settings]\ncolumns = [4, 8]\n"
    )
    found = read(file, {"model": "b.py:build", "weights": "b.pt"})
    assert found.training == {"model": "b.py:build", "weights": "b.pt", "data": "digits"}
    assert found.digest != read(file).digest


def test_text_of_a_space(tmp_path):
    file, text = (
        tmp_path / "space.toml",
        'block = "zotrain"\r\nobjectives = ["cycles"]\r\n[sweep.settings]\r\ncolumns = [4]\r\n',
    )
    file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read(file).parameters == {"settings.columns": Choices((4,))}
    file.write_text(text, encoding="utf-16")
    with pytest.raises(UserError, match="is UTF-16 text"):
        read(file)
    for wrong in ("a = " + "9" * 5000, "a = " + "[" * 100_000):
        file.write_text(wrong)
        with pytest.raises(UserError, match="is no TOML: ") as caught:
            read(file)
        assert len(str(caught.value).splitlines()) == 1


def test_the_digest_is_of_what_values_mean(space_of):
    base = {"sampler": '"random"', "trials": "5"}
    digest = space_of(**base).digest
    assert space_of(**base | {"trials": "9"}).digest == digest
    for changed in ({"seed": "1"}, {"settings": "\nn = 15\n"}, {"board": '"kv260"'}, {"objectives": '["lut"]'}):
        assert space_of(**base | changed).digest != digest


MISTAKES = {
    "= 1": ({"block": "1 1"}, "is no TOML"),
    "unknown key": ({"blok": '"urng"'}, "there is no blok; there are: block, preset"),
    "type of a key": ({"trials": '"many"'}, "trials = 'many' is not an integer"),
    "bool as integer": ({"seeds": "true"}, "seeds = True is not an integer"),
    "block": ({"block": '"fifo"'}, "block = 'fifo' is not one of instantft, zotrain, zostream, pezo"),
    "preset": ({"preset": '"tiny"'}, "preset = 'tiny': urng has none"),
    "board": ({"board": '"vcu118"'}, "board = 'vcu118' is not one of zcu102, kv260"),
    "no objectives": ({"objectives": "[]"}, "objectives is empty or missing: give some of accuracy, lut"),
    "objective": ({"objectives": '["luts"]'}, "objectives: 'luts' is not one of urng's: accuracy, lut"),
    "objective of a core": ({"objectives": '["cycles"]'}, "'cycles' is not one of urng's"),
    "objective twice": ({"objectives": '["lut", "lut"]'}, "lut is there twice"),
    "unknown setting": ({"settings": "\nwidth = 3\n"}, "settings.width is unknown; there are: n, bits, leap"),
    "ambiguous setting": ({"block": '"pezo"'}, "settings.bits is ambiguous: say scale.urng.bits or pool.bits"),
    "type of a setting": ({"settings": '\nn = "many"\n'}, "settings.n = 'many' is not an integer"),
    "literal": ({"block": '"scale"', "settings": '\nmode = "log"\n'}, "settings.mode = 'log' is not one of fraction"),
    "tuple": ({"settings": "\ntaps = 3\n"}, "settings.taps = 3 is no list of integers"),
    "setting of training": (CORE | {"settings": '\nnetwork = "fan"\n'}, "settings.network is not for a sweep"),
    "twice": ({"settings": "\nbits = 9\n"}, "sweep.settings.bits: bits is given twice"),
    "nothing to sweep": ({"sweep__settings": None}, "there is nothing to sweep"),
    "unknown part": ({"sweep__other": "\nn = [1]\n"}, "there is no sweep.other; there are: settings, training"),
    "empty list": ({"sweep__settings": "\nbits = []\n"}, "sweep.settings.bits is an empty list"),
    "value twice": ({"sweep__settings": "\nbits = [8, 8]\n"}, "sweep.settings.bits: 8 is there twice"),
    "type in a list": ({"sweep__settings": "\nbits = [8, 9.5]\n"}, "sweep.settings.bits = 9.5 is not an integer"),
    "single value": ({"sweep__settings": "\nbits = 8\n"}, "sweep.settings.bits = 8 is neither a list nor a range"),
    "range of words": ({"block": '"scale"', "sweep__settings": "\nmode = { from = 1 }\n"}, "a range is of numbers"),
    "range without end": ({"sweep__settings": "\nbits = { from = 8 }\n"}, "sweep.settings.bits.to is missing"),
    "key of a range": ({"sweep__settings": "\nbits = { from = 8, to = 9, by = 1 }\n"}, "sweep.settings.bits.by"),
    "reversed range": ({"sweep__settings": "\nbits = { from = 9, to = 8 }\n"}, "from = 9 is above to = 8"),
    "step": ({"sweep__settings": "\nbits = { from = 8, to = 9, step = 0 }\n"}, "sweep.settings.bits.step = 0"),
    "broken step": ({"sweep__settings": "\nbits = { from = 8, to = 11, step = 2 }\n"}, "to = 11 is no whole number"),
    "log from 0": ({"sweep__settings": "\nbits = { from = 0, to = 9, log = true }\n"}, "begins above 0"),
    "long range": ({"sweep__settings": "\nbits = { from = 0, to = 10000000 }\n"}, "more than 100000 integers"),
    "sampler": ({"sampler": '"bayes"'}, "sampler = 'bayes' is not one of grid, random, tpe"),
    "trials of a grid": ({"trials": "3"}, "trials has no meaning with sampler = 'grid'"),
    "no trials": ({"sampler": '"tpe"'}, "trials missing: sampler = 'tpe' takes 1 to 100000"),
    "seed": ({"seed": "-1"}, "seed = -1 is not in 0 to"),
    "seeds without accuracy": ({"seeds": "2"}, "seeds has no meaning without the objective accuracy"),
    "training without accuracy": ({"training": '\ndata = "digits"\n'}, "training.data is unknown"),
    "array of a generator": ({"objectives": '["accuracy"]'}, "training.core is missing"),
    "swept data": (CORE | {"sweep__training": '\ndata = ["digits"]\n'}, "sweep.training.data is not swept"),
    "epochs of zeroth order": (CORE | {"training": "\nepochs = 3\n"}, "training.epochs is unknown; there are: data"),
    "floats in a grid": (CORE | {"sweep__training": "\nrate = { from = 0.1, to = 0.2 }\n"}, "a grid takes a list"),
    "endless": (CORE | {"training": "\nrate = inf\n"}, "training.rate = inf is not a number"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_names_the_key(space_of, mistake):
    changed, line = MISTAKES[mistake]
    with pytest.raises(UserError, match=re.escape(line)) as error:
        space_of(**changed)
    assert "space.toml: " in str(error.value) or "space.toml is" in str(error.value)


def test_a_value_that_nothing_makes_possible_is_refused(space_of):
    with pytest.raises(UserError, match=r"sweep.settings.bits = 3 .*bits = 3 is not in 4 to 16"):
        check(space_of(sweep__settings="\nbits = [3, 8]\nleap = [1, 2]\n"), None)


def test_a_value_that_some_others_make_possible_is_taken(space_of):
    # 4-bit generators have 15 states; 31 need 5 bits
    assert check(space_of(sweep__settings="\nbits = [4, 8]\nn = [15, 31]\n"), None) == 4


def test_of_a_large_space_the_ends_are_checked(space_of):
    ranges = "\nbits = { from = 8, to = 14 }\nn = { from = 3, to = 199, step = 4 }\nleap = { from = 1, to = 2 }\n"
    assert check(space_of(sweep__settings=ranges), None) < 512
