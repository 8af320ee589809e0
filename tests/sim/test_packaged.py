"""The core of a package in the compiled simulation; `tests/boards/testbench/test_page.py` runs its self-test."""

import pytest

from fabtune.boards.board import BOARDS
from fabtune.boards.packaging import settings_file
from fabtune.boards.selftest.saved import PLACE, packaged_test
from fabtune.golden.errors import UserError
from fabtune.sim.packaged import packaged_core

from ..small_cores import zotrain


def test_a_folder_without_verilog_is_refused(tmp_path):
    (tmp_path / "spec.json").write_text(settings_file(zotrain(), BOARDS["kv260"], 187.5, (), "zotrain"))
    with pytest.raises(UserError, match=r"has no Verilog in ip/src: give the folder of `fabtune package`"):
        packaged_core(tmp_path)


def test_a_folder_that_is_no_package_is_refused(tmp_path):
    with pytest.raises(UserError, match="is missing"):
        packaged_core(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("selftest", "memory"),
    [("{", ""), ("[]", ""), ("[" * 100_000, ""), ('{"size": 1}', ""), ('{"size": 1, "copy": [1], "stages": []}', "zz")],
)
def test_a_damaged_self_test_is_refused_in_one_line(tmp_path, selftest, memory):
    (tmp_path / PLACE).parent.mkdir(parents=True)
    (tmp_path / PLACE).write_text(selftest)
    (tmp_path / PLACE).with_name("memory.hex").write_text(memory)
    with pytest.raises(UserError, match=r"selftest.json or its memory is damaged .*: package the core anew") as caught:
        packaged_test(zotrain(), tmp_path)
    assert "\n" not in str(caught.value)
