"""Settings and counters of `zotrain`."""

from ...zo.step_settings import EPS_SHIFTS
from ..shell import Address, CoreRegisters, Counter, Setting
from ..zeroth_order.registers import Command, Error, step_addresses, step_counters, step_settings

JOBS = (Command.TRAIN, Command.INFER)
"""Commands that read samples."""

CORE = CoreRegisters(
    "fabtune_zotrain",
    Command,
    Error,
    settings=(
        Address(
            "parameters", "byte address (16-byte aligned) of the frozen parameters' image", commands=(Command.LOAD,)
        ),
        Address(
            "deltas", "byte address of the deltas of all words", commands=(Command.LOAD_DELTAS, Command.SAVE_DELTAS)
        ),
        Address("samples", "byte address of the samples", commands=JOBS),
        *step_addresses(JOBS),
        *step_settings(
            EPS_SHIFTS,
            Setting("cut", "first stage of the second part, which has perturbations of its own; 0: there is no cut"),
        ),
    ),
    counters=step_counters(
        Counter("saturations", "activations, logits and offsets that the last command clipped", width=8)
    ),
)
"""Registers, commands and errors of `zotrain`."""
REGISTERS = CORE.map
"""Register map of `zotrain`."""
