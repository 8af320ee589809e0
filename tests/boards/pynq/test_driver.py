"""PYNQ driver and notebook of a package, on the compiled cores with a stub of `pynq`."""

import ast
import sys
import types

import nbformat
import pytest

from fabtune.boards.example.package import example_of
from fabtune.boards.packaging import selftest_of

from ...small_cores import task, with_slow
from ..driver.programs import (
    BLOCKS,
    CORES,
    overlay_core,
)


@pytest.mark.parametrize("name", with_slow(BLOCKS))
def test_the_driver_for_pynq_runs_the_whole_job(name, tmp_path, monkeypatch):
    module, core = overlay_core(name, tmp_path, monkeypatch)
    assert module.FabtuneCore.bindto == [f"fabtune:cores:{name}:1.0", f"xilinx.com:module_ref:{name}:1.0"]
    stages = [stage.name for stage in selftest_of(CORES[name]).stages]
    assert core.selftest(tmp_path / "selftest.bin") == stages
    assert core.selftest(tmp_path / "selftest.bin") == stages


def test_the_driver_for_pynq_measures_the_clock(tmp_path, monkeypatch):
    module, core = overlay_core("zotrain", tmp_path, monkeypatch)
    assert core.expected_hz == 187_500_000
    (tmp_path / "zotrain.clock").write_text("214283569\n")  # as left by Vivado's project
    with pytest.raises(module.FabtuneError, match=r"clock: 187\.[45]\d* MHz instead of 214.284 MHz"):
        core.selftest(tmp_path / "selftest.bin")


def test_the_driver_for_pynq_says_what_is_wrong(tmp_path, monkeypatch):
    module, core = overlay_core("zotrain", tmp_path, monkeypatch)
    with pytest.raises(
        module.FabtuneError, match=r"reports an error: status 0x00000306, error 3 \(bad_address\) at 0x8, "
    ):
        core.run("load", parameters=8)
    with pytest.raises(ValueError, match="'rate' is not a setting: parameters, deltas, "):
        core.run("load", rate=8)
    beyond = types.SimpleNamespace(device_address=(1 << 40) - 512, nbytes=513)
    with pytest.raises(module.FabtuneError, match=r"^deltas of 513 bytes at 0xfffffffe00 ends beyond 2\*\*40$"):
        core.run("save_deltas", deltas=beyond)
    image = bytearray((tmp_path / "selftest.bin").read_bytes())
    image[selftest_of(CORES["zotrain"]).memory.addresses["deltas"]] ^= 1
    (tmp_path / "other.bin").write_bytes(image)
    with pytest.raises(module.FabtuneError, match="memory, save the same deltas: deltas have CRC-32"):
        core.selftest(tmp_path / "other.bin")
    monkeypatch.setitem(module.CORE, "signature", 1)
    with pytest.raises(module.FabtuneError, match="instead of 0x00000001: the bitstream is of other settings"):
        module.FabtuneCore("hwh")


@pytest.mark.parametrize(("name", "settings"), [("zotrain", {"steps": 4, "batch": 3}), ("instantft", {"epochs": 1})])
def test_the_notebook_for_pynq_runs_the_job_of_a_users_network(name, settings, tmp_path, monkeypatch, capsys):
    own = task(CORES[name], **settings)
    module, core = overlay_core(name, tmp_path, monkeypatch, own)
    found = nbformat.read(tmp_path / f"{name}.ipynb", as_version=nbformat.NO_CONVERT)
    nbformat.validate(found)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "fabtune_core", module)

    def load(file):
        assert file == f"{name}.bit"
        return types.SimpleNamespace(core=core)

    sys.modules["pynq"].Overlay = load
    scope, results = {}, []
    for cell in (cell for cell in found.cells if cell.cell_type == "code"):
        *body, last = ast.parse(cell.source).body
        exec(compile(ast.Module(body, []), "cell", "exec"), scope)
        if isinstance(last, ast.Expr):
            results.append(eval(compile(ast.Expression(last.value), "cell", "eval"), scope))
        else:
            exec(compile(ast.Module([last], []), "cell", "exec"), scope)
    registers, stages, right, counted = results
    example, said = example_of(CORES[name], own), capsys.readouterr().out
    assert right == (example.before, example.after)
    assert f"example: {example.line}\n" in said
    assert registers["signature"] == hex(CORES[name].signature)
    assert stages == [stage.name for stage in selftest_of(CORES[name]).stages]
    assert counted["cycles"] > 0
    assert "error 3 (bad_address) at 0x" in said.splitlines()[-1]


def run_main(module, core, arguments, monkeypatch):
    """Run the PYNQ driver's command line with an overlay containing this core."""
    monkeypatch.setattr(module, "Overlay", lambda _: types.SimpleNamespace(core=core))
    try:
        return module.main(arguments)
    except SystemExit as ended:
        return ended.code


def test_the_driver_for_pynq_is_a_program_too(tmp_path, monkeypatch, capsys):
    module, core = overlay_core("zotrain", tmp_path, monkeypatch)
    bitstream, image = tmp_path / "zotrain.bit", tmp_path / "selftest.bin"
    bitstream.touch()
    waits = []

    class Interrupt:
        """PYNQ's interrupt: a coroutine that returns after the interrupt."""

        async def wait(self):
            waits.append(1)

    assert run_main(module, core, [str(bitstream), str(image), "--seconds", "3"], monkeypatch) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith(", polled, time limit 3 s")
    core.interrupt = Interrupt()
    assert run_main(module, core, [str(bitstream), str(image)], monkeypatch) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith(", with interrupt, time limit 10 s")
    assert waits
    assert run_main(module, core, ["--poll", str(bitstream), str(image)], monkeypatch) == 0
    assert ", polled, " in capsys.readouterr().out
    for arguments, message in (
        ([], "the following arguments are required"),
        (["no.bit", str(image)], "there is no file 'no.bit'"),
        ([str(bitstream), str(image), "--seconds", "0"], "takes a whole number from 1 to 1000000, not 0"),
    ):
        assert run_main(module, core, arguments, monkeypatch) == 2
        said = capsys.readouterr().err
        assert message in said
        assert said.count("\n") == 1
    image.write_bytes(bytes(image.stat().st_size))
    assert run_main(module, core, [str(bitstream), str(image)], monkeypatch) == 4
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "self-test: wrong, exit status 4"
    assert lines[-2].startswith("memory: the core does not read or write this buffer")
