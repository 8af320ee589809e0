"""Fit of cores on boards: refusals and advice of `package`."""

import dataclasses

import pytest

from fabtune.boards.board import BOARDS
from fabtune.boards.fit import BoardFit
from fabtune.boards.packaging import core_package
from fabtune.golden.cores.instantft.instantft import InstantftSpec
from fabtune.golden.cores.zotrain.zotrain import ZotrainSpec
from fabtune.golden.errors import UserError

from ..small_cores import ONE_STAGE


def board_with(**resources):
    """The KV260 with changed resources."""
    return dataclasses.replace(BOARDS["kv260"], resources=BOARDS["kv260"].resources | resources)


def test_a_core_that_fits_lacks_nothing():
    fit = BoardFit(ZotrainSpec(**ONE_STAGE), BOARDS["kv260"])
    assert (fit.lacks, fit.remedies, fit.text) == ({}, [], "")
    assert fit.needs["dsp"] == 16 * 2 + 31 + 1


def test_a_package_is_refused_with_the_numbers_and_what_fits():
    spec = InstantftSpec(network="1x12x12 conv8k3p1 relu flatten fc10", lanes=16, batch=200)
    board = board_with(bram36=100, uram=0)
    needed = BoardFit(spec, board).needs["bram36"]
    with pytest.raises(UserError) as refused:
        core_package(spec, board)
    text = str(refused.value)
    assert text.startswith(
        f"instantft does not fit on the kv260: it needs {needed:g} BRAM36 of 100; it fits with --set "
    )
    assert "--set batch=" in text
    (batch,) = (changes["batch"] for changes in BoardFit(spec, board).remedies if list(changes) == ["batch"])
    assert BoardFit(dataclasses.replace(spec, batch=batch), board).text == ""


def test_too_few_dsps_ask_for_a_smaller_array():
    assert BoardFit(ZotrainSpec(), board_with(dsp=100)).remedies == [{"columns": 2}, {"lanes": 16}]


def test_where_nothing_fits_what_was_tried_is_named():
    text = BoardFit(ZotrainSpec(**ONE_STAGE), board_with(bram36=1, uram=0)).text
    assert text.endswith("no smaller deltas, fold makes it fit: take a smaller network")
