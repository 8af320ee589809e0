"""List of a package's files."""

from fabtune.boards.manifest import MANIFEST, digest, manifest, read_manifest


def test_a_manifest_lists_all_files_but_itself_and_what_is_there_already():
    files = {"a b.txt": "1", "ip/x.v": b"2", MANIFEST: "old"}
    listed = {"a b.txt": digest("old"), "c.v": digest("3")}
    assert read_manifest(manifest(files, listed)) == {
        "a b.txt": digest("1"),
        "ip/x.v": digest("2"),
        "c.v": digest("3"),
    }


def test_a_name_outside_the_folder_is_not_read():
    files = dict.fromkeys(("a.v", "../x", "/etc/x", "ip/../../x", "ip/..x"), "1")
    assert {*read_manifest(manifest(files))} == {"a.v", "ip/..x"}
