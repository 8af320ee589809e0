"""Driver of a fabtune core for PYNQ 3 and later: needs pynq, NumPy and the files of this folder.

In a notebook::

    from pynq import Overlay
    import fabtune_core                       # before the overlay is loaded: it binds the driver to the core
    core = Overlay("CORE.bit").core
    core.selftest("selftest.bin")             # names the first part that differs from golden
    core.example("example.bin")               # if the package has an example: accuracies, equal to golden's
    core.run("load", parameters=buffer)       # buffers of pynq.allocate, or numbers

In a terminal, as root: ``python3 fabtune_core.py [--poll] [--seconds N] CORE.bit selftest.bin``. Exit status: 0 all is
right, 1 other bits, 2 arguments or files, 3 no answer or another bitstream, 4 memory, 5 an error of the core, 6 a
command does not end, 7 its interrupt does not come, 8 another clock.
"""

import argparse
import asyncio
import json
import sys
import time
import zlib
from pathlib import Path

import numpy as np
from fabtune_clock import WATCHED, ClockWatch, clock_differs
from pynq import DefaultIP, Overlay, allocate

CORE = json.loads(Path(__file__).with_name("fabtune_core.json").read_text())
SECONDS = 10.0
"""Time that a command may take."""
EXAMPLE_SECONDS = 60.0
"""Time that a command of the example may take."""
RESET_POLLS = 10_000
"""Reads of the register after which a soft reset counts as hung: 10 ms and more."""
WAIT = 0.1
"""Longest single wait for the interrupt, in seconds."""
ALL_ONES = 0xFFFF_FFFF
MEANINGS = {
    ALL_ONES: "nothing decodes this address: no bitstream is loaded, or the address is another one",
    0: "the core's clock is off, or it is in reset",
}
"""Meanings of signatures that no core has."""
OTHER = "the bitstream is of other settings: load the one of this package"
DIFFERENT, USAGE, NO_ANSWER, NO_MEMORY, FAILED, HUNG, NO_INTERRUPT, OTHER_CLOCK = range(1, 9)
"""Exit statuses."""


class FabtuneError(Exception):
    """A failed command or self-test; `status` is the exit status."""

    def __init__(self, message, status=FAILED):
        super().__init__(message)
        self.status = status


class FabtuneCore(DefaultIP):
    """A core in an overlay: registers by name, commands, self-test."""

    bindto = CORE["bindto"]
    now = staticmethod(time.perf_counter_ns)

    def __init__(self, description):
        super().__init__(description)
        self.check_signature()
        self.reset()

    def reset(self):
        """Reset the core at any time, and wait until registers and memories are in the state after power-up."""
        self.write(CORE["registers"]["soft_reset"], 1)
        for _ in range(RESET_POLLS):
            if not self.get("soft_reset"):
                return
        raise FabtuneError(
            "a soft reset does not end: memory does not answer a burst, or the core's clock has stopped: load the "
            "bitstream again",
            HUNG,
        )

    def check_signature(self):
        """Refuse a core that was generated with another configuration."""
        signature, expected = self.get("signature"), CORE["signature"]
        if signature != expected:
            meaning = MEANINGS.get(signature, OTHER)
            raise FabtuneError(f"signature {signature:#010x} instead of {expected:#010x}: {meaning}", NO_ANSWER)

    def get(self, name):
        """Read a register."""
        return int(self.read(CORE["registers"][name]))

    def set(self, name, value):
        """Write a setting: a number, or for an address a buffer of `pynq.allocate` that the core can address."""
        size = getattr(value, "nbytes", 0)
        value = int(getattr(value, "device_address", value))
        if value + size > 1 << CORE["memory_bits"]:
            raise FabtuneError(f"{name} of {size} bytes at {value:#x} ends beyond 2**{CORE['memory_bits']}", NO_MEMORY)
        self.write(CORE["registers"][name], value & 0xFFFFFFFF)
        if name in CORE["addresses"]:
            self.write(CORE["registers"][f"{name}_high"], value >> 32)

    def run(self, command, watch=None, *, seconds=SECONDS, poll=True, **settings):
        """Set registers, start a command, wait for its end; returns counters and cycles. A `watch` measures the clock.

        Without `poll` the call waits for the interrupt, which needs an event loop that is not running: not in a
        notebook.
        """
        for name, value in settings.items():
            if name not in CORE["settings"]:
                raise ValueError(f"{name!r} is not a setting: {', '.join(CORE['settings'])} are")
            self.set(name, value)
        if self.get("status") & CORE["busy"]:
            raise FabtuneError("the core is busy with another command", HUNG)
        self.write(CORE["registers"]["interrupt"], 1)
        self.write(CORE["registers"]["interrupt_enable"], int(not poll))
        self.write(CORE["registers"]["command"], CORE["commands"][command])
        if watch:
            watch.watch(lambda: self.get("cycles_low"))
        status = self._wait(seconds, poll)
        self.write(CORE["registers"]["interrupt"], 1)
        if status & CORE["error_code"]:
            raise FabtuneError(f"the core reports an error: {self._state(status)}")
        counted = {name: self.get(name) for name in CORE["counters"]}
        return counted | {"cycles": self._cycles()}

    def _wait(self, seconds, poll):
        """Wait for the end of a command; returns the status."""
        start, missed = self.now(), False
        while True:
            waited = poll or self._interrupted()
            status, taken = self.get("status"), (self.now() - start) / 1e9
            if status == ALL_ONES:
                raise FabtuneError(f"the registers do not answer: status {status:#010x}", NO_ANSWER)
            if status & CORE["done"]:
                if waited:
                    return status
                if missed:  # no interrupt in a second wait either
                    text = f"no interrupt: {self._state(status)}: --poll works without one"
                    raise FabtuneError(text, NO_INTERRUPT)
                missed = True
            if taken >= seconds:
                raise FabtuneError(f"no end after {taken:.1f} s: {self._state(status)} {self._rate(taken)}", HUNG)

    def _interrupted(self):
        """Wait at most `WAIT` seconds; whether the interrupt came."""
        waited = asyncio.wait_for(self.interrupt.wait(), WAIT)
        try:
            asyncio.get_event_loop().run_until_complete(waited)
        except asyncio.TimeoutError:  # noqa: UP041 - another class than TimeoutError before Python 3.11
            return False
        return True

    def _state(self, status):
        code = (status & CORE["error_code"]) >> 8
        address = self.get("error_address") | self.get("error_address_high") << 32 if code else 0
        name = CORE["errors"].get(str(code), "unknown") if code else "none"
        return f"status {status:#010x}, error {code} ({name}) at {address:#x}, {self._cycles()} cycles"

    def _cycles(self):
        return self.get("cycles_low") | self.get("cycles_high") << 32

    def _rate(self, taken):
        cycles = self._cycles()
        if self._cycles() == cycles:
            return "standing still: the core's clock has stopped, or it is in reset"
        return f"counting, clock {cycles / taken / 1e6:.1f} MHz" if taken else "counting"

    def try_registers(self):
        """Check signature, soft reset and a setting, which is 0 afterwards."""
        self.check_signature()
        self.reset()
        offset = CORE["registers"][CORE["settings"][0]]
        for pattern in (0xA5A5_A5A5, 0x5A5A_5A5A, 0):
            self.write(offset, pattern)
            if (value := int(self.read(offset))) != pattern:
                raise FabtuneError(f"a register does not keep what is written: it reads {value:#010x}", NO_ANSWER)

    def clock_hz(self, command, **settings):
        """Measure the core's clock in Hz by repeating a command; 0 for a command that is too short."""
        watch, begun = ClockWatch(self.now), self.now()
        while watch.nanoseconds < WATCHED and self.now() - begun < 10 * WATCHED:
            self.run(command, watch, **settings)
        return watch.hertz

    @property
    def expected_hz(self):
        """Clock rate in Hz that Vivado reached, from Vivado's file; without the file the requested rate."""
        file = Path(__file__).with_name(CORE["clock_file"])
        return int(file.read_text()) if file.exists() else CORE["clock_hz"]

    def _try_clock(self, say, stage, buffer):
        hertz, expected = self.clock_hz(stage["command"], **self._settings(stage, buffer)), self.expected_hz
        if hertz and clock_differs(hertz, expected):
            raise FabtuneError(f"{hertz / 1e6:.3f} MHz instead of {expected / 1e6:.3f} MHz", OTHER_CLOCK)
        if hertz:
            say(f"clock: right, {hertz / 1e6:.3f} MHz")

    def selftest(self, image, *, say=print, seconds=SECONDS, poll=True):
        """Try registers and memory, then run a small job with known results; returns the names of the job's stages.

        Finally the clock is measured by the longest command since the last load. A `FabtuneError` names the first wrong
        part.
        """
        test = CORE["selftest"]
        how = "polled" if poll else "with interrupt"
        say(f"self-test: {CORE['name']}, signature {CORE['signature']:#010x}, {how}, time limit {seconds:g} s")
        try:
            say("registers: begin")
            self._part("registers", say, self.try_registers)
            say(f"registers: right, signature {CORE['signature']:#010x}")
            buffer = self._memory(test, image, say)
            for stage in test["copy"]:
                self._stage(f"memory, {stage['name']}", say, stage, buffer, seconds, poll)
            loads, most = test["stages"][0]["command"], 0
            for number, stage in enumerate(test["stages"], 1):
                where = f"stage {number} of {len(test['stages'])}, {stage['name']}"
                say(f"{where}: begins")
                cycles = self._stage(where, say, stage, buffer, seconds, poll)
                if cycles > most or stage["command"] == loads:
                    most, longest = cycles, stage
            self._part("clock", say, self._try_clock, say, longest, buffer)
        except FabtuneError as error:
            if str(error).startswith("memory, ") and error.status in (DIFFERENT, FAILED):
                say("memory: the core does not read or write this buffer as the program does: its address, or a cache")
                error.status = NO_MEMORY
            say(f"self-test: wrong, exit status {error.status}")
            raise
        say(f"self-test: all {len(test['stages'])} stages are right")
        return [stage["name"] for stage in test["stages"]]

    def example(self, image, *, say=print, seconds=EXAMPLE_SECONDS, poll=True):
        """Tune the network of the package's example; numbers of correctly classified held-out samples before and after.

        A `FabtuneError` names the first command whose results differ from golden.
        """
        job, right = CORE["example"], []
        self._part("registers", say, self.try_registers)
        buffer = self._memory(job, image, say)
        for number, stage in enumerate(job["stages"], 1):
            where = f"command {number} of {len(job['stages'])}, {stage['name']}"
            say(f"{where}: begins")
            self._stage(where, say, stage, buffer, seconds, poll)
            if any(what == "logits" for what, *_ in stage["memory"]):
                right.append(self._right(job, buffer))
        accuracies, golden = (
            [f"{(1000 * count + job['tested'] // 2) // job['tested'] / 10} %" for count in counts]
            for counts in (right, (job["before"], job["after"]))
        )
        say(f"example: accuracy {accuracies[0]} before, {accuracies[1]} after; golden says {golden[0]} and {golden[1]}")
        return tuple(right)

    @staticmethod
    def _memory(job, image, say):
        """Allocate the memory of a job and load a file at the beginning."""
        buffer = allocate(shape=(job["size"],), dtype=np.uint8)
        buffer[:] = 0
        start = np.frombuffer(Path(image).read_bytes(), np.uint8)
        buffer[: len(start)] = start
        say(f"memory: begins, {job['size']} bytes at {int(buffer.device_address):#x}")
        return buffer

    @staticmethod
    def _right(job, buffer):
        tested, stride = job["tested"], job["stride"]
        words = np.asarray(buffer[job["logits"] : job["logits"] + 4 * tested * stride]).tobytes()
        logits = np.frombuffer(words, np.int32).reshape(tested, stride)[:, : job["classes"]]
        labels = np.asarray(buffer[job["labels"] : job["labels"] + tested])
        return int((logits.argmax(axis=1) == labels).sum())

    @staticmethod
    def _part(where, say, try_it, *arguments):
        """Try a part; report an error, and name the part in the error."""
        try:
            return try_it(*arguments)
        except FabtuneError as error:
            say(f"{where}: wrong, {error}")
            raise FabtuneError(f"{where}: {error}", error.status) from error

    def _stage(self, where, say, *arguments):
        cycles = self._part(where, say, self._run_stage, *arguments)
        say(f"{where}: right, {cycles} cycles")
        return cycles

    @staticmethod
    def _settings(stage, buffer):
        """Settings of a stage with addresses relative to a buffer."""
        base, settings = int(buffer.device_address), stage["settings"]
        return {name: base + value if name in CORE["addresses"] else value for name, value in settings.items()}

    def _run_stage(self, stage, buffer, seconds, poll):
        """Run the command of a stage and compare its results; returns its cycles."""
        settings = self._settings(stage, buffer)
        buffer.flush()
        try:
            counted = self.run(stage["command"], seconds=seconds, poll=poll, **settings)
        finally:
            buffer.invalidate()
        for name, value in stage["counters"].items():
            if counted[name] != value:
                raise FabtuneError(f"{name} is {counted[name]}, golden says {value}", DIFFERENT)
        for what, offset, size, expected in stage["memory"]:
            written = np.asarray(buffer[offset : offset + size])
            checksum = zlib.crc32(written.tobytes())
            if checksum != expected:
                nothing = "" if written.any() else ": all bytes are 0"
                text = f"{what} have CRC-32 {checksum:#010x}, golden says {expected:#010x}{nothing}"
                raise FabtuneError(text, DIFFERENT)
        return counted["cycles"]


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(USAGE, f"{self.prog}: {message}: {' '.join(self.format_usage().split())}\n")


def _file(name):
    if not Path(name).is_file():
        raise argparse.ArgumentTypeError(f"there is no file {name!r}")
    return name


def _seconds(text):
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"takes a whole number from 1 to 1000000, not {text}")
    return int(text)


def main(arguments=None):
    """Load an overlay and run the self-test of its core; returns the exit status."""
    parser = _Parser(description="Self-test of a core.")
    parser.add_argument("bitstream", type=_file)
    parser.add_argument("image", type=_file, help="selftest.bin")
    parser.add_argument("--poll", action="store_true", help="look at the status instead of waiting for the interrupt")
    parser.add_argument("--seconds", type=_seconds, default=SECONDS, help="time that a command may take")
    chosen = parser.parse_args(arguments)
    try:
        core = Overlay(chosen.bitstream).core
    except FabtuneError as error:  # another bitstream
        print(f"registers: wrong, {error}")
        return error.status
    try:
        core.selftest(
            chosen.image, seconds=chosen.seconds, poll=chosen.poll or getattr(core, "interrupt", None) is None
        )
    except FabtuneError as error:  # already printed
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main())
