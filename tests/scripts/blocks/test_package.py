"""`fabtune package`: the folder it writes, what it keeps, what it refuses."""

import json

import pytest

SMALL = ("--set", "network=64 fc10", "--set", "lanes=16", "--set", "columns=2", "--set", "byte_inputs=true")


def test_a_core_is_a_folder_for_the_board(fabtune, tmp_path):
    status, out, err = fabtune("package", "zotrain", *SMALL, "--board", "kv260", "--json")
    report = json.loads(out)
    assert (status, err, report["folder"]) == (0, "", "build/packages/zotrain-kv260")
    folder = tmp_path / report["folder"]
    assert sorted(report["files"]) == sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )
    assert {"README.md", "ip/component.xml", "vivado/system.tcl", "registers/fabtune_zotrain.rdl"} <= {*report["files"]}
    page = (folder / "README.md").read_text()
    assert "# zotrain for the kv260" in page
    assert "vivado -mode batch -source vivado/system.tcl" in page
    # again: what fabtune wrote is replaced; what the user changed is not
    assert fabtune("package", "zotrain", *SMALL, "--board", "kv260")[0] == 0
    (folder / "vivado" / "system.tcl").write_text("mine")
    status, _, err = fabtune("package", "zotrain", *SMALL, "--board", "kv260")
    assert status == 2
    assert "system.tcl exists: choose another folder with --output, or --force to replace it" in err
    assert (folder / "vivado" / "system.tcl").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("zotrain",), "Missing option '--board'"),
        (("zotrain", "--board", "zcu104"), "no board called 'zcu104'"),
        (
            ("urng", "--board", "kv260"),
            "urng is a block without registers: `fabtune emit urng --board kv260`",
        ),
        (("toaster", "--board", "kv260"), "there is no block 'toaster'"),
        (("zotrain", "--board", "kv260", "--for", "toaster"), "no 'toaster' to package for"),
        (("zotrain", "--board", "kv260", "--mhz", "2000"), "2000.0 MHz is not a clock for this fabric"),
        (("zotrain", "--board", "kv260", "--set", "address=70"), "address = 70 is not in 33 to 62"),
        (("zotrain", "--board", "kv260", "-o", "mine"), "mine/README.md exists"),
        (("zotrain", "--board", "kv260", "-o", "file"), "file is a file, not a folder"),
    ],
)
def test_what_is_wrong_is_one_line_before_any_work(fabtune, tmp_path, arguments, message):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("mine")
    (tmp_path / "file").write_text("mine")
    status, out, err = fabtune("package", *arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"mine", "file"}
