"""Insides of what is proved: parts whose ports rules read, parts that are left out, parts with a reset of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from amaranth.hdl import Elaboratable, EnableInserter, Module, ResetInserter, Signal, Value
from amaranth.lib.wiring import Out

from ...hw.probe import Probe
from .checker import Checker


def parts_of(component: Any) -> Any:
    """Give the parts of a component by name, as attributes: a rule may read their ports."""
    return _elaborated(component).submodules


def probe_of(component: Any) -> Probe:
    """Give the values that a component shows to rules, and the states of its state machine, see `hw.probe`."""
    _elaborated(component)
    return vars(component).get("probe") or Probe(component)


def leave_out(checker: Checker, whole: Any, *keep: str) -> None:
    """Leave out all parts of a component but those named; what they drive becomes free inputs of its checker."""
    # Amaranth has no public list of a module's parts
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
    """Reset what rules added within count and follow, too: they are about a part with a reset of its own."""
    return _changed_by(checker, ResetInserter(clear))


def enabled_by(checker: Checker, enable: Value) -> AbstractContextManager[None]:
    """Let what rules added within count and follow wait, too: they are about a part that waits as a whole."""
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
    """Elaborate a component at once, and for good: what is inside is at hand before the whole is converted."""
    if "elaborate" not in vars(component):
        inside = component.elaborate(None)
        vars(component)["elaborate"] = lambda _: inside
    return component.elaborate(None)


def _silence(part: Any) -> None:
    """Keep Amaranth from warning that what a part left out is made of is not used."""
    for value in vars(part).values():
        for each in value if isinstance(value, list | tuple) else (value,):
            if isinstance(each, Elaboratable):
                each.__dict__["_MustUse__used"] = True
                _silence(each)
