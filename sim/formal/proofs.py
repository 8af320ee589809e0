"""Formal modules ``sim/<area>/formal_<name>.py``, one for each block and for some submodules.

A formal module has

- ``SPEC``: default parameters of the proof, small but with all of the block's control; or, for a submodule that is not
  a block, ``part()``, which returns the component;
- ``CUT`` (optional): cells with arbitrary results, see `prover.CUTS`;
- ``COMPLETE = True`` (optional): the rules fix every output in every cycle, so that any component satisfying all rules
is equivalent; - ``LARGE`` (optional): true for a block in which each rule depends on little of the logic, see
`prover.prove`; - ``check(checker, spec)``, or ``check(checker, part)``: adds rules and assumptions to the checker.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from threading import Lock
from types import ModuleType

from ...golden.block import Spec
from ...golden.errors import UserError
from ...golden.registry import BLOCKS
from ...hw.verilog import component
from .checker import Checker
from .prover import Proof, design_of, prove, prove_text

_PREFIX = "formal_"
_SIM = Path(__file__).parent.parent


def proved_names() -> list[str]:
    """Names of blocks and submodules with a proof: blocks in registry order, then submodules."""
    names = [path.stem.removeprefix(_PREFIX) for path in sorted(_modules())]
    return [name for name in BLOCKS if name in names] + [name for name in names if name not in BLOCKS]


def formal_module(name: str) -> ModuleType:
    """Import the formal module of a block or submodule.

    Raises
    ------
    UserError
        For an unknown name, with the known names.
    """
    for path in _modules():
        if path.stem == f"{_PREFIX}{name}":
            place = path.relative_to(_SIM).with_suffix("").parts
            return import_module(f"...{'.'.join(place)}", __name__)
    if name in BLOCKS:
        area = BLOCKS[name].__module__.split(".")[2:-1]
        raise UserError(
            f"{name} has no rules yet: {'/'.join(['sim', *area, f'{_PREFIX}{name}.py'])} is to have them, "
            "see docs/proofs.md"
        )
    raise UserError(f"no block or part is called {name!r}: choose from {', '.join(proved_names())}")


def checker_of(name: str, spec: Spec | None = None) -> Checker:
    """Checker of a block or submodule, with the rules of its formal module; `spec` defaults to the module's."""
    module = formal_module(name)
    if not hasattr(module, "SPEC"):
        if spec:
            raise UserError(f"{name} is proved with fixed parameters: leave them out")
        block = subject = module.part()
    else:
        subject = spec or module.SPEC
        block = component(subject)
    checker = Checker(block)
    module.check(checker, subject)
    return checker


def prove_block(
    name: str, spec: Spec | None = None, rules: tuple[str, ...] = (), seconds: int = 120, keep: Path | None = None
) -> Iterator[Proof]:
    """Prove the rules of a block or submodule, see `checker_of` and `prover.prove`."""
    cut, large = _search_of(name)
    return prove(checker_of(name, spec), cut, rules, seconds, keep, large)


def prove_blocks(names: Sequence[str], seconds: int = 120, keep: Path | None = None) -> Iterator[tuple[str, Proof]]:
    """Prove blocks on all processor cores; yields each name with its proofs, in order.

    Parameters
    ----------
    seconds, keep
        As in `prover.prove`; each name gets its own folder of counterexamples.
    """
    elaborating = Lock()  # Amaranth's signal counter is global

    def proofs_of(name: str) -> list[Proof]:
        with elaborating:
            text, rules = design_of(checker_of(name))
        cut, large = _search_of(name)
        return list(prove_text(text, rules, rules, cut, seconds, keep and keep / name, large, processes=1))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, proofs in zip(names, pool.map(proofs_of, names), strict=True):
            yield from ((name, proof) for proof in proofs)


def _search_of(name: str) -> tuple[tuple[str, ...], bool]:
    """``CUT`` and ``LARGE`` of a formal module."""
    module = formal_module(name)
    return getattr(module, "CUT", ()), getattr(module, "LARGE", False)


def _modules() -> Iterator[Path]:
    return _SIM.rglob(f"{_PREFIX}*.py")
