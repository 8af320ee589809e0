"""Board faults: wrong programs and streams, bus errors, resets; afterwards a whole job is right."""

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from fabtune.boards.host.driver import CoreError
from fabtune.golden.axi.bus import BEAT
from fabtune.golden.cores.zostream.registers import Command
from fabtune.golden.errors import UserError
from fabtune.golden.stream.instruction import Kind
from fabtune.golden.stream.machine.limits import Reason
from fabtune.sim.compiled.comparison import compiled_core
from fabtune.sim.compiled.device import DeviceResetError, SimulatedDevice
from fabtune.sim.compiled.playing import ShortJob
from fabtune.sim.cores.zostream.trials import TRIALS, StreamVariation, short_stream
from fabtune.sim.cores.zostream.wrong_inputs import refused_programs, wrong_weights
from fabtune.sim.trials.hostile import LIMIT, not_reset, wrong_error
from fabtune.sim.trials.jobs import short_jobs
from tests.small_cores import zostream

SPEC = zostream()
STEP: dict[str, Any] = {"lengths": (1, 3), "sizes": (2,)}
"""One short step."""
VARIATIONS = {
    "encoder": StreamVariation(**STEP),
    "decoder": StreamVariation(kind="decoder", **STEP),
    "sensitive": StreamVariation(sensitive=9, **STEP),
    "cut": StreamVariation(kind="perceptron", cut=3, **STEP),
    "cache": StreamVariation(kind="perceptron", cut=3, first=3, **STEP),
}
RESETS, STEP_RESETS = 600, 60
"""Cycles between the moments of a command, and of a step, at which a reset is tried: no operation is shorter."""


@cache
def job_of(name: str) -> ShortJob:
    return short_stream(SPEC, 7, VARIATIONS[name])


class Bench:
    """A core with a job's network, and the names of the host's buffers."""

    def __init__(self, name: str, **settings: Any) -> None:
        self.job, self.names = job_of(name), list[str]()
        self.device = SimulatedDevice(compiled_core(SPEC), limit=LIMIT, **settings)
        self.driver = self.job.driver(self.device)
        place = self.driver.core.place

        def named(region: Any) -> Any:
            self.names.append(region.register)
            return place(region)

        self.driver.core.place = named  # type: ignore[method-assign]

    def run(self) -> list[str]:
        """Load the network and run the whole job; differences from golden."""
        self.job.load(self.driver)
        return self.job.differences(self.driver, self.device)

    def has_no_program(self, command: Command = Command.SAVE_DELTAS, **settings: int) -> None:
        """Check that a command is refused for want of a program."""
        with pytest.raises(CoreError, match="ended with program_no_program at 0x00000000"):
            self.driver.core.run(command, **settings)


# -- programs ------------------------------------------------------------------------------------------------------


def test_programs_are_refused_for_every_reason() -> None:
    found = [*refused_programs(SPEC, job_of("encoder").job.network.program)]
    of_other_trials = {Reason.NONE, Reason.BUS, Reason.NO_PROGRAM, Reason.NO_OPERATION}
    assert {*Reason} == {one.reason for one in found} | of_other_trials
    assert len(found) > 120


@pytest.mark.slow
def test_a_program_that_is_wrong_is_refused_by_number_and_reason() -> None:
    bench = Bench("encoder")
    core, program = bench.driver.core, bench.job.job.network.program
    images = [*refused_programs(SPEC, program)]
    buffer = core.allocate(max(image.size for image, *_ in images))
    for image, reason, number in images:
        buffer.array[: image.size] = image
        buffer.flush()
        with pytest.raises(CoreError) as error:
            core.run(Command.LOAD, program=buffer.device_address, program_beats=image.size // BEAT)
        assert (error.value.name, error.value.address) == (f"program_{reason.name.lower()}", number)
    bench.has_no_program()
    assert bench.run() == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_before_any_load_every_command_is_refused_and_touches_nothing(seed: int) -> None:
    bench = Bench("decoder", power_up=seed)
    usual = TRIALS.usual(SPEC)
    for command in Command:
        if command != Command.LOAD:
            bench.has_no_program(command, **usual)
    assert all(not port[kind] for port in bench.device.results[-1]["ports"] for kind in ("read_beats", "write_beats"))
    assert bench.run() == []


# -- streams of weights --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("wrong", ["twice", "descending", "beyond", "far beyond"])
def test_sensitive_weights_that_are_wrong_end_in_an_error_with_their_tile(wrong: str) -> None:
    bench = Bench("sensitive")
    bench.job.load(bench.driver)
    found = {name: (stream, tile) for name, stream, tile in wrong_weights(SPEC, bench.job.job.network)}
    weights, (stream, tile) = bench.device.buffers[bench.names.index("weights")], found[wrong]
    weights.array[: stream.size] = stream
    weights.flush()
    with pytest.raises(CoreError) as error:
        bench.job.differences(bench.driver, bench.device)
    assert (error.value.name, error.value.address) == ("bad_weights", tile)
    bench.has_no_program()
    assert bench.run() == []


# -- errors on the bus ---------------------------------------------------------------------------------------------


def faulty_beats(bench: Bench) -> Iterator[tuple[str, int, int]]:
    """First and last beat of each read buffer and of each written buffer; first beat of each tensor."""
    program, weights = bench.job.job.network.program, bench.names.index("weights")
    for kind, names in (
        ("read", ("program", "deltas", "state", "order", "index", "samples", "cache")),
        ("write", ("records", "deltas", "logits", "cache")),
    ):
        for number in (bench.names.index(name) for name in names if name in bench.names):
            yield from ((kind, number, at) for at in (0, bench.device.buffers[number].array.size - BEAT))
    yield "read", weights, BEAT * (program.stream_beats - 1)
    for one in program.instructions:
        beats = {one.beat, one.table if one.rotary or one.positions else 0}
        beats |= {one.correction_beat} if one.corrections else set()
        yield from (("read", weights, BEAT * beat) for beat in sorted(beats))


@pytest.mark.slow
@pytest.mark.parametrize("name", VARIATIONS)
def test_an_error_in_each_stream_ends_in_its_code_and_address(name: str) -> None:
    calm = Bench(name)
    assert calm.run() == []
    for number, (kind, buffer, offset) in enumerate(dict.fromkeys(faulty_beats(calm))):
        bench = Bench(name, seed=number)
        bench.device.fault_of_buffer(buffer, kind, offset, 1, ("slverr", "decerr")[number % 2])
        with pytest.raises(CoreError) as error:
            bench.run()
        assert not wrong_error(error.value, bench.device.bad_responses), (kind, calm.names[buffer], offset)
        assert error.value.name.startswith(kind)
        assert ("in the weights of operation" in str(error.value)) == (calm.names[buffer] == "weights")
        bench.device.no_faults()
        bench.has_no_program()
        assert bench.run() == []


# -- resets --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["encoder", "decoder"])
def test_a_soft_reset_at_any_moment_forgets_the_program_and_nothing_else_stays(name: str) -> None:
    """During load, sample reads, weight prefetch, each kind of operation, and write-back."""
    calm = Bench(name)
    assert calm.run() == []
    commands = [one["waits"][-1]["cycles"] for one in calm.device.results if one["waits"]]
    assert len(commands) == 5  # load, load deltas, train, save deltas, infer

    def operations_until(command: int, after: int) -> int:
        """Check a reset at one moment; number of operations begun before."""
        bench = Bench(name)
        bench.device.reset_in(command, after, soft=(0,))
        with pytest.raises(DeviceResetError):
            bench.run()
        begun = len(bench.device.operations)
        assert not_reset(bench.device) == []
        bench.has_no_program()
        assert bench.run() == []
        return begun

    train = 2
    for command, cycles in enumerate(commands):
        if command != train:
            for after in range(1, cycles, RESETS):
                operations_until(command, after)
    begun = {after: operations_until(train, after) for after in range(1, commands[train], STEP_RESETS)}
    # an operation may begin and end between two moments
    while missed := [(one + other) // 2 for one, other in pairwise(sorted(begun)) if begun[other] > begun[one] + 1]:
        begun |= {after: operations_until(train, after) for after in missed}
    assert set(begun.values()) >= set(range(1, len(calm.job.job.network.program.instructions) + 1))


@pytest.mark.slow
def test_a_soft_reset_of_an_idle_core_forgets_the_program() -> None:
    bench = Bench("encoder")
    assert bench.run() == []
    bench.device.soft_reset()
    assert not_reset(bench.device) == []
    with pytest.raises(CoreError, match="ended with program_no_program"):
        bench.driver.deltas()
    with pytest.raises(UserError, match="no network is loaded"):
        bench.driver.deltas()
    assert bench.run() == []


# -- coverage of short jobs ----------------------------------------------------------------------------------------


def test_short_jobs_reach_what_is_rare() -> None:
    """Saturation of each kind, a generator that wraps, sentences of maximum length, two passes."""
    made: dict[str, Any] = short_jobs(SPEC)
    assert made["base"].counts == {"steps_done": 2, **dict.fromkeys(made["base"].counts, 0)} | {"steps_done": 2}
    assert made["clipped"].counts["saturations"] > 100
    assert made["clipped"].counts["coefficients_clipped"] > 0
    assert made["ends"].counts["offsets_clipped"] > 0
    late, buffers = made["late"].job, made["buffers"].job
    assert late.position + len(late.network.model.rows) > SPEC.generator.period
    lengths, most = (buffers.inputs >= 0).sum(axis=1), buffers.network.program.capacity // 2
    assert {1, most} <= {*lengths}
    assert (buffers.steps[0].indices.size, lengths[buffers.steps[0].indices].sum() > most) == (4, True)
    kinds = {one.kind for one in made.values() for one in one.job.network.program.instructions}
    assert kinds == {*Kind}
