"""The script of a bench is what the host driver does with a core that answers as golden expects."""

import numpy as np

from fabtune.boards.host.driver import Core, Finished
from fabtune.golden.cores.instantft.registers import CORE, REGISTERS, Command
from fabtune.sim.cores.recorded_host import RecordedHost
from fabtune.sim.phase import Step


def at(name):
    return REGISTERS[name].offset


def test_a_command_is_recorded_as_the_driver_runs_it():
    host = RecordedHost(REGISTERS, patience=500)
    host.expect(batches=3, misses=2, saturations=None)
    finished = Core(CORE, host, None, host.interrupt).run(Command.TUNE, rate=77)
    assert finished == Finished(0, {"batches": 3, "misses": 2, "saturations": 0})
    steps, answers = host.take()
    written = {step.at: step.value for step in steps if step.kind == "write"}
    assert written == {at("rate"): 77, at("interrupt"): 1, at("interrupt_enable"): 1, at("command"): Command.TUNE}
    waiting = steps.index(Step("until", "interrupt", 500))
    assert steps[waiting - 1] == Step("write", at("command"), Command.TUNE)
    assert steps[waiting + 1 : waiting + 4] == (
        Step("read", at("interrupt")),
        Step("read", at("status")),
        Step("write", at("interrupt"), 1),
    )
    # one answer for each step but the wait, and a mask of nothing where golden does not know
    assert len(answers["value"]) == len(answers["response"]) == len(steps) - 1
    unknown = {step.at for step in steps if step.kind == "read" and not step.strobe}
    assert unknown == {at("cycles_low"), at("cycles_high"), at("saturations")}
    assert not np.any(answers["response"])
    reads = [step for step in steps if step.kind != "until"]
    values = {step.at: int(value) for step, value in zip(reads, answers["value"][:, 0], strict=True) if step.strobe}
    assert values == dict.fromkeys(values, 0) | {
        at("batches"): 3,
        at("misses"): 2,
        at("interrupt"): 0,
        at("status"): 2,
    }


def test_steps_are_taken_once():
    host = RecordedHost(REGISTERS, patience=1)
    host.quiet()
    assert host.take()[0] == (Step("get", "interrupt"),)
    host.write(at("rate"), 5)
    steps, answers = host.take()
    assert steps == (Step("write", at("rate"), 5),)
    assert answers["value"].tolist() == [[0]]
