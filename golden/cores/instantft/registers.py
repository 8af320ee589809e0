"""InstantFT's commands, error codes, settings and counters."""

from dataclasses import replace
from enum import IntEnum

from ...axi.register_map import RegisterField
from ..shell import Address, CoreRegisters, Counter, Setting


class Command(IntEnum):
    """Codes that `command` takes."""

    LOAD = 1
    LOAD_ADAPTERS = 2
    TUNE = 3
    INFER = 4
    SAVE_ADAPTERS = 5
    FORGET = 6


class Error(IntEnum):
    """Codes in `status` of a command that ended early."""

    BAD_COMMAND = 1
    ZERO_LENGTH = 2
    BAD_ADDRESS = 3
    BAD_BATCH = 4
    BAD_RATE = 5
    BAD_INDEX = 6
    BAD_LABEL = 7
    READ_SLVERR = 8
    READ_DECERR = 9
    WRITE_SLVERR = 10
    WRITE_DECERR = 11
    BAD_MODE = 12
    BAD_CACHE_ENTRIES = 13


_JOBS = (Command.TUNE, Command.INFER)

CORE = CoreRegisters(
    "fabtune_instantft",
    Command,
    Error,
    settings=(
        Address(
            "parameters", "byte address (16-byte aligned) of the frozen parameters' image", commands=(Command.LOAD,)
        ),
        Address(
            "adapters", "byte address of the adapters' image", commands=(Command.LOAD_ADAPTERS, Command.SAVE_ADAPTERS)
        ),
        Address("samples", "byte address of the samples", commands=_JOBS),
        Address("order", "byte address of the order list: 4 bytes an entry, 23:0 index, 31:24 label", commands=_JOBS),
        Address("cache", "byte address of the forward cache", commands=_JOBS),
        Address("logits", "byte address to which logits go, in the order of the order list", commands=_JOBS),
        Setting("cache_entries", "entries of the cache (samples)"),
        Setting("samples_per_epoch", "order entries in an epoch"),
        Setting("epochs", "epochs of a tuning"),
        Setting("batch", "samples a batch, from 1 to the generated maximum"),
        Setting("rate", "a sample's learning rate, 17 bits"),
        Setting(
            "mode",
            "how to run",
            (
                RegisterField("raw", 0, 1, "the cache holds Q8.16 words and not NF4"),
                RegisterField("write_logits", 1, 1, "write logits while tuning"),
                RegisterField("rates", 2, 1, "the order list has each batch's rate (generated with `rates`)"),
                RegisterField(
                    "stop", 3, 1, "end with the epoch whose loss is `stop_loss` (generated with `early_stop`)"
                ),
            ),
        ),
    ),
    counters=(
        Counter("batches", "batches of the last command"),
        Counter("misses", "cache misses of the last command"),
        Counter("saturations", "numbers that the last command saturated", width=8),
    ),
)
"""InstantFT's registers, commands and errors."""
REGISTERS = CORE.map
"""InstantFT's register map."""
STOPPING_CORE = replace(
    CORE,
    settings=(*CORE.settings, Setting("stop_loss", "largest loss of an epoch that ends the tuning", group=1)),
    counters=(*CORE.counters, Counter("epoch_loss", "loss of the last whole epoch", width=32, group=1)),
)
"""Registers of a core generated with `early_stop`: two more."""
VALIDATING_CORE = replace(
    CORE,
    settings=(
        *STOPPING_CORE.settings,
        Setting("validation_samples", "order entries behind each epoch that are not learnt from, 0 for none", group=2),
        Setting("patience", "epochs in a row without a smaller loss that end the tuning, 0 for any number", group=2),
    ),
    counters=(
        *STOPPING_CORE.counters,
        Counter("validation_loss", "loss of the last whole validation", width=32, group=2),
        Counter("correct", "samples of the last whole validation that were classified correctly", width=32, group=2),
    ),
)
"""Registers of a core generated with `validation`: four more than with `early_stop`."""
