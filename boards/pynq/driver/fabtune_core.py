"""Driver of a fabtune core for PYNQ 3 and later; it needs pynq and NumPy alone, and the files beside it.

In a notebook::

    from pynq import Overlay
    import fabtune_core                       # before the overlay is loaded: it binds the driver to the core
    core = Overlay("CORE.bit").core
    core.selftest("selftest.bin")             # names the first stage whose bits are not golden's
    core.run("load", parameters=buffer)       # buffers of pynq.allocate, or numbers
"""

import json
import time
import zlib
from pathlib import Path

import numpy as np
from fabtune_clock import WATCHED, ClockWatch, clock_differs
from pynq import DefaultIP, allocate

CORE = json.loads(Path(__file__).with_name("fabtune_core.json").read_text())
POLLS = 10_000_000
"""Reads of the status after which a command counts as hung."""
RESET_POLLS = 10_000
"""Reads of the register after which a soft reset counts as hung: 10 ms and more."""


class CoreError(Exception):
    """Command that the core ended with an error, or a self-test that found another bit."""


class FabtuneCore(DefaultIP):
    """A core in an overlay: its registers by name, its commands, its self-test."""

    bindto = CORE["bindto"]
    now = staticmethod(time.perf_counter_ns)

    def __init__(self, description):
        super().__init__(description)
        if self.get("signature") != CORE["signature"]:
            raise CoreError("the overlay's core has another configuration than fabtune_core.json: generate both anew")
        self.reset()

    def reset(self):
        """Reset the core, at any time, and wait until all is as after power-up: registers, and memories, too."""
        self.write(CORE["registers"]["soft_reset"], 1)
        for _ in range(RESET_POLLS):
            if not self.get("soft_reset"):
                return
        raise CoreError(
            f"the core's soft reset is pending after {RESET_POLLS} reads: memory has not answered a burst: "
            "load the bitstream again, which resets the bus, too"
        )

    def get(self, name):
        """Read a register."""
        return int(self.read(CORE["registers"][name]))

    def set(self, name, value):
        """Write a setting: a number, or of an address a buffer of `pynq.allocate`."""
        value = int(getattr(value, "device_address", value))
        self.write(CORE["registers"][name], value & 0xFFFFFFFF)
        if name in CORE["addresses"]:
            self.write(CORE["registers"][f"{name}_high"], value >> 32)

    def run(self, command, watch=None, **settings):
        """Set registers, start a command, wait for its end; returns its counters and cycles. A `watch` measures."""
        for name, value in settings.items():
            if name not in CORE["settings"]:
                raise ValueError(f"{name!r} is not a setting: {', '.join(CORE['settings'])} are")
            self.set(name, value)
        if self.get("status") & CORE["busy"]:
            raise CoreError("the core is busy: wait for its last command")
        self.write(CORE["registers"]["interrupt"], 1)
        self.write(CORE["registers"]["command"], CORE["commands"][command])
        if watch:
            watch.watch(lambda: self.get("cycles_low"))
        for _ in range(POLLS):
            status = self.get("status")
            if status & CORE["done"]:
                break
        else:
            raise CoreError(f"{command} has not ended after {POLLS} polls: reset() ends it")
        if code := (status & CORE["error_code"]) >> 8:
            address = self.get("error_address") | self.get("error_address_high") << 32
            raise CoreError(f"{command} ended with {CORE['errors'].get(str(code), code)} at {address:#010x}")
        counted = {name: self.get(name) for name in CORE["counters"]}
        return counted | {"cycles": self.get("cycles_low") | self.get("cycles_high") << 32}

    def clock_hz(self, command, **settings):
        """Measure the core's clock while a command is repeated; 0 for one that is too short."""
        watch, begun = ClockWatch(self.now), self.now()
        while watch.nanoseconds < WATCHED and self.now() - begun < 10 * WATCHED:
            self.run(command, watch, **settings)
        return watch.hertz

    @property
    def expected_hz(self):
        """Rate of the clock that Vivado reached, where its file is here; else the one that was asked for."""
        file = Path(__file__).with_name(CORE["clock_file"])
        return int(file.read_text()) if file.exists() else CORE["clock_hz"]

    def selftest(self, image):
        """Run a small job whose results are known; returns the names of its stages, all of which were right.

        Raises
        ------
        CoreError
            Naming the first stage that is not right; or the clock, which is measured with the longest command.
        """
        most = 0
        test = CORE["selftest"]
        buffer = allocate(shape=(test["size"],), dtype=np.uint8)
        buffer[:] = 0
        start = np.frombuffer(Path(image).read_bytes(), np.uint8)
        buffer[: len(start)] = start
        for number, stage in enumerate(test["stages"], 1):
            where = f"self-test, stage {number} of {len(test['stages'])}, {stage['name']}"
            base = int(buffer.device_address)
            settings = {
                name: base + value if name in CORE["addresses"] else value for name, value in stage["settings"].items()
            }
            buffer.flush()
            try:
                counted = self.run(stage["command"], **settings)
            except CoreError as error:
                raise CoreError(f"{where}: {error}") from error
            if counted["cycles"] > most:
                most, longest = counted["cycles"], (stage["command"], settings)
            buffer.invalidate()
            for name, value in stage["counters"].items():
                if counted[name] != value:
                    raise CoreError(f"{where}: {name} is {counted[name]}, golden says {value}")
            for what, offset, size, expected in stage["memory"]:
                found = zlib.crc32(np.asarray(buffer[offset : offset + size]).tobytes())
                if found != expected:
                    raise CoreError(f"{where}: {what} have CRC-32 {found:#010x}, golden says {expected:#010x}")
        hertz = self.clock_hz(longest[0], **longest[1])
        if hertz and clock_differs(hertz, self.expected_hz):
            raise CoreError(
                f"self-test: all stages are right, but the clock has {hertz / 1e6:.3f} MHz and not "
                f"{self.expected_hz / 1e6:.3f} MHz"
            )
        return [stage["name"] for stage in test["stages"]]
