"""Power-report script: commands to Vivado, and refusals."""

from fabtune.boards.vivado import tcl

POWER = tcl.script("power", {"saif": "zotrain.saif", "instance": "TOP/zotrain"})
FILES = {"power.tcl": POWER, "zotrain.saif": ""}


def test_the_activity_is_read_into_the_checkpoint(tmp_path, run_script):
    checkpoint = tmp_path / "my run.dcp"
    checkpoint.touch()
    status, said, commands = run_script("power.tcl", FILES, [str(checkpoint)])
    assert status == 0, said
    here = tmp_path / "emitted here"
    assert commands == [
        f"open_checkpoint {{{checkpoint}}}",
        f"read_saif -strip_path TOP/zotrain -out_file {{{tmp_path}/my run_unmatched.txt}} {{{here}/zotrain.saif}}",
        f"report_power -file {{{tmp_path}/my run_power.rpt}}",
    ]


def test_a_checkpoint_that_is_not_there_is_refused(tmp_path, run_script):
    status, said, commands = run_script("power.tcl", FILES, [str(tmp_path / "none.dcp")])
    assert status == 1
    assert "there is no checkpoint" in said
    assert commands == []
    assert "name the checkpoint" in run_script("power.tcl", FILES)[1]
