"""Access to a component's internals in proofs: submodules, probes, cut submodules, and local resets or enables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from amaranth.hdl import Elaboratable, EnableInserter, Module, ResetInserter, Signal, Value
from amaranth.lib.wiring import Out

from ...hw.primitives.fifo import Fifo
from ...hw.probe import Probe
from .checker import Checker


def parts_of(component: Any) -> Any:
    """Submodules of a component by name, as attributes: rules may read their ports."""
    return _elaborated(component).submodules


def probe_of(component: Any) -> Probe:
    """Probed values of a component and the states of its state machine, see `hw.probe`."""
    _elaborated(component)
    return vars(component).get("probe") or Probe(component)


def stored_in(queue: Fifo) -> Value:
    """Number of payloads in a queue's memory and output register."""
    level = probe_of(queue).level
    return (level + 1)[: len(level)] + queue.o.valid


def leave_out(checker: Checker, whole: Any, *keep: str) -> None:
    """Cut all submodules of a component except `keep`; their outputs become free inputs of the checker."""
    # Amaranth has no public list of submodules
    for name, (part, _) in _elaborated(whole)._named_submodules.items():
        if name in keep:
            continue
        _silence(part)
        empty = Module()
        vars(part)["elaborate"] = lambda _, empty=empty: empty
        for path, member, value in part.signature.flatten(part):
            if member.flow is Out:
                signal = Value.cast(value)
                assert isinstance(signal, Signal)
                checker.ports["_".join(["free", name, *map(str, path)])] = signal


def cleared_by(checker: Checker, clear: Value) -> AbstractContextManager[None]:
    """Context: `clear` too resets rules added inside, like the submodule that they describe."""
    return _changed_by(checker, ResetInserter(clear))


def enabled_by(checker: Checker, enable: Value) -> AbstractContextManager[None]:
    """Context: rules added inside advance only with `enable`, like the submodule that they describe."""
    return _changed_by(checker, EnableInserter(enable))


@contextmanager
def _changed_by(checker: Checker, inserter: ResetInserter | EnableInserter) -> Iterator[None]:
    outer, checker.m = checker.m, Module()
    try:
        yield
    finally:
        outer.submodules += inserter(checker.m)
        checker.m = outer


def _elaborated(component: Any) -> Any:
    """Elaborate a component once, before the conversion of the whole design, and cache the result."""
    if "elaborate" not in vars(component):
        inside = component.elaborate(None)
        vars(component)["elaborate"] = lambda _: inside
    return component.elaborate(None)


def _silence(part: Any) -> None:
    """Suppress Amaranth's warning about unused components inside a cut submodule."""
    for value in vars(part).values():
        for item in value if isinstance(value, list | tuple) else (value,):
            if isinstance(item, Elaboratable):
                item.__dict__["_MustUse__used"] = True
                _silence(item)
