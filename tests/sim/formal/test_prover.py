# amaranth: UnusedElaboratable=no
"""The prover: faults of a small stage break the right rule, with a waveform and a failing test bench."""

import os
import subprocess

import pytest
from amaranth.hdl import Fragment, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from fabtune.golden.errors import UserError
from fabtune.sim.formal.checker import Checker
from fabtune.sim.formal.prover import _searches, prove
from fabtune.sim.simulator import environment, find

FAULTS = {
    "": None,
    # words are invented, lost, stuck, withdrawn before acceptance, or changed while valid
    "made": "o_words_made",
    "lost": "o_words_lost",
    "stuck": "o_words_stuck",
    "withdrawn": "o_held",
    "changed": "o_stable",
    "inverted": "o_in_order",
    "deaf": "progress",
    # no reset: arbitrary initial value
    "unset": "o_words_made",
}


class Stage(wiring.Component):
    """A register with a handshake, and an optional fault."""

    def __init__(self, fault):
        self.fault = fault
        super().__init__({"i": In(stream.Signature(3)), "o": Out(stream.Signature(3))})

    def elaborate(self, platform):
        m = Module()
        full, ticks = Signal(reset_less=self.fault == "unset"), Signal(3)
        m.d.sync += ticks.eq(ticks + 1)
        now = ticks == 0
        free = (~full | self.o.ready) & ~((self.fault == "deaf") & self.i.valid & (self.i.payload == 5))
        m.d.comb += [self.o.valid.eq(full), self.i.ready.eq(free)]
        with m.If(free):
            m.d.sync += [full.eq(self.i.valid), self.o.payload.eq(self.i.payload)]
        if self.fault == "made":
            m.d.sync += full.eq(self.i.valid | (full & ~self.o.ready) | now)
        elif self.fault == "lost":
            m.d.comb += self.i.ready.eq(free | now)
        elif self.fault == "stuck":
            seen = Signal()
            m.d.sync += seen.eq(seen | (self.o.valid & self.o.ready))
            m.d.comb += self.o.valid.eq(full & ~(seen & ~self.i.valid))
        elif self.fault == "withdrawn":
            m.d.comb += self.o.valid.eq(full & ~now)
        elif self.fault == "changed":
            with m.If(now & self.i.valid):
                m.d.sync += self.o.payload.eq(self.i.payload)
        elif self.fault == "inverted":
            with m.If(free & now):
                m.d.sync += self.o.payload.eq(~self.i.payload)
        return m


def checker(fault):
    found = Checker(Stage(fault))
    found.words("i", "o", capacity=1, drained=2)
    found.in_order("i", "o", 1)
    found.progress(2)
    return found


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_breaks_its_rule(fault):
    status = {proof.rule: proof.status for proof in prove(checker(fault))}
    assert set(status.values()) <= {"proved", "broken"}
    assert FAULTS[fault] is None or status[FAULTS[fault]] == "broken"
    assert fault or set(status.values()) == {"proved"}


@pytest.mark.parametrize("fault", ["lost", "unset"])
@pytest.mark.parametrize("build", ["fast_simulator", pytest.param("verilator", marks=pytest.mark.slow)])
def test_a_counterexample_is_a_waveform_and_a_bench_that_fails(tmp_path, fault, build, fast_simulator):
    rule = FAULTS[fault]
    (proof,) = prove(checker(fault), rules=[rule], keep=tmp_path / "new" / "folder")
    folder = tmp_path / "new" / "folder"
    assert proof.status == "broken"
    assert sorted(path.name for path in folder.iterdir()) == [f"{rule}{end}" for end in (".v", ".vcd", "_tb.v")]
    changes = (folder / f"{rule}.vcd").read_text()
    assert f"broken_{rule}" in changes
    assert f"#{10 * (proof.cycles - 1)}" in changes.split() or proof.cycles == 1
    run = simulated(folder, rule, tmp_path, fast_simulator if build == "fast_simulator" else build)
    assert run.returncode != 0
    assert f"rule {rule} is broken in cycle {proof.cycles - 1}" in run.stdout + run.stderr


def test_the_bench_does_not_fail_without_the_fault(tmp_path, fast_simulator):
    (proof,) = prove(checker("lost"), rules=["o_words_lost"], keep=tmp_path / "bad")
    bench = tmp_path / "bad" / "o_words_lost_tb.v"
    sound = tmp_path / "bad" / "o_words_lost.v"
    # with the same stimulus the rule's wire never rises
    text = sound.read_text().replace("broken_o_words_lost = ", "broken_o_words_lost = 1'b0 & ")
    assert text != sound.read_text()
    sound.write_text(text)
    assert simulated(tmp_path / "bad", "o_words_lost", tmp_path, fast_simulator).returncode == 0
    assert proof.cycles == bench.read_text().count("clk = 1;")


def test_short_searches_come_first():
    assert list(_searches(30)) == ["pdr -T 30", "pdr -t -T 30"]
    assert list(_searches(600)) == ["pdr -T 40", "pdr -t -T 80", "pdr -T 600", "pdr -t -T 600"]


def simulated(folder, rule, scratch, simulator):
    """Build and run a test bench."""
    env = environment(simulator, scratch)
    sources = [str(folder / f"{rule}.v"), str(folder / f"{rule}_tb.v")]
    if simulator == "icarus":
        build = ["iverilog", "-g2012", "-s", "bench", "-o", "Vbench"]
        program = ["vvp", "Vbench"]
    else:
        flags = "-Wno-fatal", "-Wno-lint", "-MAKEFLAGS", "OPT_FAST=-O0"
        build = [find("verilator"), "--binary", *flags, "--top-module", "bench", "--Mdir", "."]
        program = ["./Vbench"]
    done = subprocess.run([*build, *sources], cwd=scratch, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return subprocess.run(program, capture_output=True, text=True, check=False, cwd=scratch, env=dict(os.environ))


def test_unknown_rules_are_refused():
    with pytest.raises(UserError, match="no rule called 'o_word_lost': choose from o_words_made"):
        list(prove(checker(""), rules=["o_word_lost"]))


def test_a_rule_has_one_name():
    found = checker("")
    with pytest.raises(ValueError, match="there is a rule progress already"):
        found.progress(2)
    Fragment.get(found.m, None)
