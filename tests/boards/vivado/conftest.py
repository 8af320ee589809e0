"""Vivado's place in the tests: tclsh with commands that record each call."""

import shutil
import subprocess

import pytest

TCLSH = shutil.which("tclsh")

# Records every command of Vivado's that a script calls and answers the few whose result it uses.
STAND_IN = r"""
proc unknown {args} {
    global stand_in
    puts $stand_in(log) $args
    switch -- [lindex $args 0] {
        get_timing_paths { return [expr {$stand_in(slack) eq "none" ? "" : "path"}] }
        get_property {
            switch -- [lindex $args 1] {
                PROGRESS { return $stand_in(progress) }
                DIRECTORY { return $stand_in(runs) }
            }
            return $stand_in(slack)
        }
        get_sites { return {BUFGCE_X0Y10 BUFGCE_X0Y2} }
        get_board_parts {
            foreach part $stand_in(installed) {
                if {[string match [lindex $args end] $part]} { lappend found $part }
            }
        }
        create_bd_cell { return /[lindex $args end] }
        get_bd_pins - get_bd_intf_pins - get_bd_cells - get_bd_addr_segs - get_runs - get_files - get_ports {
            return [lindex $args end]
        }
        ipx::get_bus_interfaces - ipx::get_memory_maps - ipx::get_address_spaces { return [lindex $args 1] }
        ipx::get_address_blocks { return [list reg0] }
        ipx::add_register - ipx::add_field { return [lindex $args 1] }
        ipx::current_core { return packaged }
    }
    if {[info exists found]} { return $found }
}
"""


@pytest.fixture(name="run_script")
def _run_script(tmp_path):
    """Run a script in tclsh from another folder: exit status, output and the commands it gave Vivado."""
    if TCLSH is None:
        pytest.skip("tclsh is not installed: apt install tcl")

    def run(name, files, arguments=(), slack="0.5", installed=(), step=None, progress="100%", home=None):
        home, elsewhere = home or tmp_path / "emitted here", tmp_path / "elsewhere"
        elsewhere.mkdir(exist_ok=True)
        for file, text in files.items():
            (home / file).parent.mkdir(parents=True, exist_ok=True)
            (home / file).write_bytes(text if isinstance(text, bytes) else text.encode())
        log = tmp_path / "log"
        driver = [f"set stand_in(log) [open {{{log}}} w]"]
        settings = {"slack": slack, "installed": " ".join(installed), "progress": progress}
        settings["runs"] = str(tmp_path / "runs")
        driver += [f"set stand_in({key}) {{{value}}}" for key, value in settings.items()]
        driver += [f"set step {step}"] if step else []
        driver += [STAND_IN, f"source {{{home / name}}}", "exit 0"]
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
