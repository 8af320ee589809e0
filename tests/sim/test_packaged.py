"""The core of a package in the compiled simulation; `tests/boards/testbench/test_page.py` runs its self-test."""

import pytest

from fabtune.boards.board import BOARDS
from fabtune.boards.packaging import settings_file
from fabtune.golden.errors import UserError
from fabtune.sim.packaged import packaged_core

from ..small_cores import zotrain


def test_a_folder_without_verilog_is_refused(tmp_path):
    (tmp_path / "spec.json").write_text(settings_file(zotrain(), BOARDS["kv260"], 187.5, (), "zotrain"))
    with pytest.raises(UserError, match=r"has no Verilog in ip/src: give the folder of `fabtune package`"):
        packaged_core(tmp_path)


def test_a_folder_that_is_no_package_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"cannot read .*: No such file"):
        packaged_core(tmp_path / "nowhere")
