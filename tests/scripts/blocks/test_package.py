"""`fabtune package`: written and kept files, refusals."""

import hashlib
import json

import pytest

from fabtune.golden.registry import BLOCKS
from fabtune.golden.settings import build

from ...small_cores import DEEP, ONE_STAGE, options, words

SMALL = options(ONE_STAGE)


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
    assert f"# zotrain_{build(BLOCKS['zotrain'], words(ONE_STAGE)).signature:08x} for the kv260" in page
    assert "vivado -mode batch -source vivado/system.tcl" in page
    # again: generated files are replaced, user-changed files are kept
    assert fabtune("package", "zotrain", *SMALL, "--board", "kv260")[0] == 0
    (folder / "vivado" / "system.tcl").write_text("mine")
    status, _, err = fabtune("package", "zotrain", *SMALL, "--board", "kv260")
    assert status == 2
    assert "system.tcl exists: choose another folder with --output, or --force to replace it" in err
    assert (folder / "vivado" / "system.tcl").read_text() == "mine"


OTHER = (*options(DEEP), "--for", "vivado", "--name", "mine")
FIRST = ("package", "zotrain", *SMALL, "--board", "kv260", "--name", "mine")


def files_of(folder):
    """Contents by name."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("named", [False, True])
def test_a_folder_is_never_a_mixture_of_two_packages(fabtune, tmp_path, named):
    where = ("-o", "mine/core") if named else ()
    folder = tmp_path / ("mine/core" if named else "build/packages/zotrain-kv260")
    assert fabtune(*FIRST, *where)[0] == 0
    first = files_of(folder)
    digests = dict(reversed(line.split("  ")) for line in (folder / "files.sha256").read_text().splitlines())
    assert digests == {n: hashlib.sha256(c).hexdigest() for n, c in first.items() if n != "files.sha256"}
    users = {"out/zotrain.bit": b"built", "vivado/vivado/zotrain.xpr": b"project", "linux/selftest": b"built"}
    for name, content in users.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)

    if named:
        status, out, err = fabtune("package", "zotrain", *OTHER, "--board", "kv260", *where)
        assert (status, out) == (2, "")
        assert "mine/core/README.md exists" in err
        assert files_of(folder) == first | users
    force = ("--force",) if named else ()
    status, out, err = fabtune("package", "zotrain", *OTHER, "--board", "kv260", *where, *force, "--json")
    assert status == 0
    assert fabtune("package", "zotrain", *OTHER, "--board", "kv260", "-o", "fresh")[0] == 0
    fresh = files_of(tmp_path / "fresh")
    assert files_of(folder) == fresh | users
    assert {*json.loads(out)["files"]} == {*fresh}
    gone = len({*first} - {*fresh})
    assert gone > 10
    assert err == (
        f"{folder.relative_to(tmp_path)} had a package of other settings: {gone} files that this one does not have are "
        "deleted, out/ and vivado/vivado/ may be of it\n"
    )
    assert not (folder / "pynq").exists()


def test_what_the_user_changed_of_an_earlier_package_is_kept(fabtune, tmp_path):
    assert fabtune(*FIRST)[0] == 0
    folder = tmp_path / "build/packages/zotrain-kv260"
    (folder / "linux" / "zotrain_mine.dts").write_text("mine")
    before = files_of(folder)
    status, _, err = fabtune("package", "zotrain", *OTHER, "--board", "kv260")
    assert status == 2
    assert "linux/zotrain_mine.dts exists: choose another folder with --output, or --force to replace it" in err
    assert files_of(folder) == before
    assert fabtune("package", "zotrain", *OTHER, "--board", "kv260", "--force")[0] == 0
    assert not (folder / "linux").exists()


def test_a_package_for_another_target_of_the_same_settings_is_added(fabtune, tmp_path):
    folder = tmp_path / "build/packages/zotrain-kv260"
    for target in ("vitis", "pynq"):
        status, _, err = fabtune(*FIRST, "--for", target)
        random = "the self-test is random: --weights and --data make it of your network and samples\n"
        assert (status, err) == (0, random)
    assert fabtune(*FIRST, "--for", "pynq", "--for", "vitis", "-o", "both")[0] == 0
    assert files_of(folder) == files_of(tmp_path / "both")
    names = {*files_of(folder)}
    assert {"vitis/link.cfg", "pynq/fabtune_core.json"} < names
    listed = {line.split("  ")[1] for line in (folder / "files.sha256").read_text().splitlines()}
    assert listed == names - {"files.sha256"}
    # another clock is another package
    assert fabtune(*FIRST, "--for", "vivado", "--mhz", "150")[0] == 0
    assert not {*files_of(folder)} & {"vitis/link.cfg", "pynq/fabtune_core.json"}


def test_a_folder_that_does_not_say_what_is_of_a_package_is_refused(fabtune, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "spec.json").write_text("{}")
    status, out, err = fabtune(*FIRST, "-o", "mine", "--force")
    assert (status, out) == (2, "")
    assert "mine/spec.json is of other settings, and no files.sha256 says which files are" in err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["spec.json"]


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
        (
            ("zotrain", "--board", "kv260", "--mhz", "200"),
            "200 MHz is no clock of this board: pl_clk0 is 1500 MHz divided by integers; take 187.5 or 214.3",
        ),
        (("zotrain", "--board", "kv260", "--mhz", "2000"), "divided by integers; take 20 to 300"),
        (
            ("zotrain", "--board", "kv260", "--debug", "--for", "linux", "--for", "vitis"),
            "vitis takes no core with a monitor: each pin of a kernel is its clock, reset or interrupt, or belongs",
        ),
        (("zotrain", "--board", "kv260", "--set", "address=70"), "address = 70 is not in 33 to 62"),
        (("zotrain", "--board", "kv260", "-o", "mine"), "mine/README.md exists"),
        (("zotrain", "--board", "kv260", "--name", ""), "'' is no end of a name"),
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


@pytest.mark.slow
@pytest.mark.parametrize("board", ["kv260", "zcu102"])
def test_a_core_of_no_network_is_packaged_and_takes_none(fabtune, refused, board):
    status, out, err = fabtune("package", "zostream", "--preset", "tiny", "--board", board)
    assert (status, err) == (0, "the self-test is random\n")
    assert f"build/packages/zostream-{board}/ip/component.xml" in out.splitlines()
    message = "--data digits: zostream tunes on sentences, those of sst-2, sst-5, trec, rte, mnli, csv:FOLDER"
    assert message in refused(f"package zostream --board {board} --data digits")
