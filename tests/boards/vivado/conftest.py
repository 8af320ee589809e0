"""Stand-in for Vivado: tclsh with commands that record each call."""

import shutil
import subprocess
from pathlib import Path

import pytest

TCLSH = shutil.which("tclsh")
STAND_IN = Path(__file__).with_name("stand_in.tcl")


@pytest.fixture(name="run_script")
def _run_script(tmp_path):
    """Run a script in tclsh from another folder; returns exit status, output and recorded commands."""
    if TCLSH is None:
        pytest.skip("tclsh is not installed: apt install tcl")

    def run(name, files, arguments=(), installed=(), step=None, home=None, **changes):
        home, elsewhere = home or tmp_path / "emitted here", tmp_path / "elsewhere"
        elsewhere.mkdir(exist_ok=True)
        for file, text in files.items():
            (home / file).parent.mkdir(parents=True, exist_ok=True)
            (home / file).write_bytes(text if isinstance(text, bytes) else text.encode())
        log = tmp_path / "log"
        driver = [f"set stand_in(log) [open {{{log}}} w]"]
        settings = {
            "slack": "0.5",
            "hold": "0.05",
            "progress": "100%",
            "associated": "",
            "hertz": "187498123",
            "cable": "arm_dap_1 xck26_0",
            "ilas": "hw_ila_1",
            "width": "8",
            "full": "1",
        } | changes
        settings |= {"installed": " ".join(installed), "runs": str(tmp_path / "runs of it")}
        driver += [f"set stand_in({key}) {{{value}}}" for key, value in settings.items()]
        driver += [f"set step {step}"] if step else []
        driver += [f"source {{{STAND_IN}}}", f"source {{{home / name}}}", "exit 0"]
        (tmp_path / "driver.tcl").write_text("\n".join(driver))
        done = subprocess.run(
            [TCLSH, str(tmp_path / "driver.tcl"), *arguments],
            cwd=elsewhere,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr, log.read_text().splitlines()

    return run
