"""Linux files of a package: steps, device-tree overlay and Makefile."""

import re
import shutil
import subprocess

import pytest

from fabtune.boards.board import BOARDS
from fabtune.boards.packaging import core_package, selftest_of
from fabtune.scripts.outputs import OutputFolder

from ...small_cores import instantft, with_slow, zostream, zotrain

CORES = {"instantft": instantft(), "zotrain": zotrain(), "zostream": zostream()}


def write(files, folder):
    OutputFolder(folder, force=True, default=False).write(files)


@pytest.mark.parametrize(
    ("board", "loader"), [("kv260", "xmutil loadapp"), pytest.param("zcu102", "fpgautil -b", marks=pytest.mark.slow)]
)
def test_the_steps_for_linux_are_those_of_the_board(board, loader):
    files = core_package(CORES["zotrain"], BOARDS[board], ["linux"])
    steps = files["README.md"].partition("## linux")[2].partition("## Memories")[0]
    assert [one for one in ("xmutil loadapp", "fpgautil -b") if one in steps] == [loader]
    assert not re.search(r"CORE|BOARD|LOAD\b", steps)
    made = {"out/zotrain.bit", "out/zotrain.bit.bin", "linux/zotrain.dtbo", "linux/selftest"}
    named = set(re.findall(r"\b(?:vivado|out|linux|driver|selftest)/[\w.]+", re.sub(r"/(?:sys|lib)/\S*", "", steps)))
    assert named - made <= set(files)
    assert ("linux/shell.json" in files) == (board == "kv260")  # it is for xmutil
    # bootgen writes its output beside the bitstream; with -process_bitstream it ignores -o
    assert files["linux/zotrain.bif"] == "all: { [destination_device = pl] out/zotrain.bit }\n"
    assert "bootgen -image linux/zotrain.bif -arch zynqmp -process_bitstream bin -w " in steps


BASE = """\
/dts-v1/;
/ {
	#address-cells = <2>;
	#size-cells = <2>;
	fpga_full: fpga-full { };
	zynqmp_clk: clock-controller { #clock-cells = <1>; };
	amba: axi {
		#address-cells = <2>;
		#size-cells = <2>;
		PARENT: interrupts { interrupt-controller; #interrupt-cells = <3>; };
	};
};
"""
"""Labels of a board's base tree used by the overlay; the interrupt controller has two possible labels."""


@pytest.mark.skipif(shutil.which("dtc") is None, reason="dtc is not installed: apt install device-tree-compiler")
@pytest.mark.parametrize("name", with_slow(CORES))
@pytest.mark.parametrize(("parent", "hertz"), [("gic", None), ("imux", 187_498_123)])
def test_the_overlay_fits_the_base_tree(name, parent, hertz, tmp_path):
    """Built by `linux/Makefile`, for both labels, with requested and achieved clock rates."""
    write(core_package(CORES[name], BOARDS["kv260"], ["linux"], mhz=187.5), tmp_path)
    if hertz:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / f"{name}.clock").write_text(f"{hertz}\n")
    variables = [] if parent == "gic" else [f"INTERRUPT_PARENT={parent}"]
    made = subprocess.run(
        ["make", "-C", tmp_path / "linux", f"{name}.dtbo", *variables], capture_output=True, text=True, check=False
    )
    assert (made.returncode, made.stderr) == (0, "")
    base, overlay, merged = tmp_path / "base.dtb", tmp_path / "linux" / f"{name}.dtbo", tmp_path / "merged.dtb"

    def merge(label):
        (tmp_path / "base.dts").write_text(BASE.replace("PARENT", label))
        subprocess.run(["dtc", "-@", "-q", "-O", "dtb", "-o", base, tmp_path / "base.dts"], check=True)
        command = ["fdtoverlay", "-i", base, "-o", merged, overlay]
        return subprocess.run(command, capture_output=True, text=True, check=False).returncode

    # a base tree with the other label refuses the overlay
    assert merge({"gic": "imux", "imux": "gic"}[parent]) != 0
    assert merge(parent) == 0
    back = subprocess.run(["dtc", "-q", "-I", "dtb", "-O", "dts", merged], capture_output=True, text=True, check=True)
    found = back.stdout
    assert 'compatible = "generic-uio"' in found
    assert "interrupts = <0x00 0x59 0x04>" in found
    assert "reg = <0x00 0xa0000000 0x00 0x1000>" in found
    assert f"assigned-clock-rates = <0x{hertz or 187_500_000:x}>" in found
    (region,) = re.findall(r"fpga-full {([^}]*)}", found)
    # the kernel's of-fpga-region reads no resets
    assert sorted(re.findall(r"([a-z-]+) =", region)) == ["firmware-name", "phandle"]
    (buffer,) = re.findall(r"udmabuf0 {([^}]*)}", found)
    assert 'compatible = "ikwzm,u-dma-buf"' in buffer
    assert "sync-mode = <0x02>" in buffer
    size = int(re.search(r"\bsize = <0x([0-9a-f]+)>", buffer)[1], 16)
    assert selftest_of(CORES[name]).size <= size < selftest_of(CORES[name]).size + 4096


def test_the_self_test_for_linux_expects_the_rate_that_vivado_reached(tmp_path):
    write(core_package(CORES["zotrain"], BOARDS["kv260"], ["linux"], mhz=187.5), tmp_path)
    assert "#define FABTUNE_CLOCK_HZ 187500000u\n" in (tmp_path / "selftest" / "selftest.c").read_text()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "zotrain.clock").write_text("187498123\n")
    made = subprocess.run(
        ["make", "-n", "-C", tmp_path / "linux", "selftest"], capture_output=True, text=True, check=True
    )
    assert " -DFABTUNE_CLOCK_HZ=187498123u " in made.stdout
