"""Protocol monitors: the handshake rule of streams and AXI channels, and the rules of AXI bursts."""

from __future__ import annotations

from typing import Any

PAGE = 4096
"""Bytes of a page: no burst crosses a multiple of this."""


class HandshakeMonitor:
    """Handshake rule: once high, `valid` stays high with the same payload wires until `ready` is high."""

    def __init__(self, dut: Any, test: str, valid: str, ready: str, payload: list[str]) -> None:
        self.name, self._test = valid, test
        self._valid, self._ready = getattr(dut, valid), getattr(dut, ready)
        self._payload = [getattr(dut, wire) for wire in payload]
        self._held: list[int] | None = None

    @property
    def valid(self) -> bool:
        return bool(int(self._valid.value))

    def forget(self) -> None:
        """Drop the pending word; call it after a reset and at the start of a phase."""
        self._held = None

    def sample(self) -> list[int] | None:
        """Check a cycle, just before the rising edge; returns the payload of a transfer, or None."""
        if not self.valid:
            assert self._held is None, f"{self._test}: {self.name} fell before its word was taken"
            return None
        word = [int(wire.value) for wire in self._payload]
        assert self._held in (None, word), f"{self._test}: {self.name} held, but its word changed"
        taken = bool(int(self._ready.value))
        self._held = None if taken else word
        return word if taken else None


class BurstMonitor:
    """Rules of the AXI4 memory port with wire prefix `prefix`: handshakes and burst shape.

    Bursts have the bus's full width, increment, are aligned and stay within a 4 KiB page. A write burst has exactly the
    announced number of beats, the last marked. When the interrupt rises, no burst is offered or outstanding.
    """

    def __init__(self, dut: Any, test: str, prefix: str) -> None:
        self._test = test
        halves = [half for half in ("r", "w") if hasattr(dut, f"{prefix}_a{half}addr")]
        burst = ("addr", "len", "size", "burst")
        self._addresses = [_channel(dut, test, f"{prefix}_a{half}", burst) for half in halves]
        writes = [_channel(dut, test, f"{prefix}_w", ("data", "strb", "last"))] if "w" in halves else []
        self._data = writes[0] if writes else None
        self._bytes = len(getattr(dut, f"{prefix}_{halves[0]}data")) // 8
        self._channels = [*self._addresses, *writes]
        # wires that are all high when a burst ends: at a read's last beat, at a write's response
        ends = {"r": ("rvalid", "rready", "rlast"), "w": ("bvalid", "bready")}
        self._ends = [[getattr(dut, f"{prefix}_{wire}") for wire in ends[half]] for half in halves]
        self._interrupt = getattr(dut, "interrupt", None)
        self.forget()

    def forget(self) -> None:
        """Drop all bursts in progress; call it after a reset."""
        self._announced: list[int] = []
        self._sent: list[int] = [0]
        self._outstanding, self._raised = 0, True
        for channel in self._channels:
            channel.forget()

    def sample(self) -> None:
        """Check a cycle, just before the rising edge."""
        raised, self._raised = self._raised, self._interrupt is not None and bool(int(self._interrupt.value))
        if self._raised and not raised:
            at_rest = not self._outstanding and not any(channel.valid for channel in self._channels)
            assert at_rest, f"{self._test}: the interrupt rises while a burst is outstanding"
        for channel in self._addresses:
            if burst := channel.sample():
                self._check(channel.name.removesuffix("valid"), *burst)
                self._outstanding += 1
        self._outstanding -= sum(all(int(wire.value) for wire in end) for end in self._ends)
        if self._data and (beat := self._data.sample()):
            self._sent[-1] += 1
            if beat[-1]:
                self._sent.append(0)
        while self._announced and len(self._sent) > 1:
            announced, sent = self._announced.pop(0), self._sent.pop(0)
            assert announced == sent, f"{self._test}: a burst of {announced} beats was announced, {sent} came"

    def _check(self, channel: str, address: int, length: int, size: int, burst: int) -> None:
        where = f"{self._test}: {channel}: {length + 1} beats at {address:#x}"
        assert 1 << size == self._bytes, f"{where}: not of {self._bytes} bytes"
        assert burst == 1, f"{where}: not incrementing"
        assert address % self._bytes == 0, f"{where}: not aligned"
        last = address + (length + 1) * self._bytes - 1
        assert address // PAGE == last // PAGE, f"{where}: crosses 4 KiB"
        if channel.endswith("_aw"):
            self._announced.append(length + 1)


def response_monitors(dut: Any, test: str, prefix: str) -> list[HandshakeMonitor]:
    """Monitors of the response channels of a core's AXI4-Lite register bus."""
    return [_channel(dut, test, f"{prefix}_b", ("resp",)), _channel(dut, test, f"{prefix}_r", ("data", "resp"))]


def _channel(dut: Any, test: str, name: str, payload: tuple[str, ...]) -> HandshakeMonitor:
    return HandshakeMonitor(dut, test, f"{name}valid", f"{name}ready", [name + wire for wire in payload])
