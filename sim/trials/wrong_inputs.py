"""Images that a core must refuse: each command ends with the error and the value of its `WrongInput`."""

from __future__ import annotations

from pathlib import Path

from ...golden.cores.core import CoreSpec
from ..compiled.session import LARGEST_MEMORY, Bytes, Session
from .contract import trials_of
from .endings import Endings


def input_findings(program: Path, spec: CoreSpec, mutant: int = 0) -> list[str]:
    """Run a command for each of `Trials.wrong_inputs`, and list those that end in another way.

    Each comes behind commands that load the network of its images, and of those of `Trials.images` that it does not
    have. No beat of the upper half of the memory can be touched.

    Parameters
    ----------
    program : Path
        The core, from `build.build`.
    spec : CoreSpec
        Its parameters.
    mutant : int
        See `Session`.
    """
    trials = trials_of(spec)
    wrong = [*trials.wrong_inputs(spec)]
    if not wrong:
        return []
    session = Session(program, LARGEST_MEMORY, mutant=mutant)
    session.region(0, 1 << spec.address - 1)
    endings, usual, there = Endings(session, spec), trials.images(spec), dict[int, Bytes]()
    for one in wrong:
        addresses = endings.usual | dict(one.settings)
        for name, image in (usual | dict(one.images)).items():
            where = addresses[name]
            if there.get(where) is not image:
                session.load(where, image)
                there[where] = image
        for load in trials.loads:
            if load == one.command:
                break
            endings.command(load, one.settings, f"{one.name}, loaded")
        endings.command(one.command, one.settings, one.name, one.error, one.value)
    return endings.findings()
