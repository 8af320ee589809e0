"""Commands, error codes, settings and counters of a core that trains adapters; the engine adds its images."""

from enum import IntEnum

from ...axi.register_map import RegisterField
from ..shell import Address, CoreRegisters, Counter, Setting


class Command(IntEnum):
    """Codes of the register `command`."""

    LOAD = 1
    LOAD_ADAPTERS = 2
    TUNE = 3
    INFER = 4
    SAVE_ADAPTERS = 5
    FORGET = 6


class Error(IntEnum):
    """Error codes in `status`."""

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


JOBS = (Command.TUNE, Command.INFER)
"""Commands with samples."""
RAW = RegisterField("raw", 0, 1, "the cache holds Q8.16 words and not NF4")
WRITE_LOGITS = RegisterField("write_logits", 1, 1, "write logits while tuning")
RATES = RegisterField("rates", 2, 1, "the order list has each batch's rate (generated with `rates`)")
STOP = RegisterField(
    "stop", 3, 1, "end after the first epoch with a loss of at most `stop_loss` (generated with `early_stop`)"
)


def adapter_registers(name: str, *loaded: Address, early_stop: bool = False, validation: bool = False) -> CoreRegisters:
    """Registers of a core.

    Parameters
    ----------
    name : str
        Prefix in C.
    loaded : Address
        Images of the engine, loaded by `Command.LOAD`.
    early_stop : bool
        Adds two registers.
    validation : bool
        Adds four registers.
    """
    settings: list[Setting] = [
        *loaded,
        Address(
            "adapters", "byte address of the adapters' image", commands=(Command.LOAD_ADAPTERS, Command.SAVE_ADAPTERS)
        ),
        Address("samples", "byte address of the samples", commands=JOBS),
        Address("order", "byte address of the order list: 4 bytes an entry, 23:0 index, 31:24 label", commands=JOBS),
        Address("cache", "byte address of the forward cache", commands=JOBS),
        Address("logits", "byte address to which logits go, in the order of the order list", commands=JOBS),
        Setting("cache_entries", "entries of the cache (samples)"),
        Setting("samples_per_epoch", "order entries in an epoch"),
        Setting("epochs", "epochs of a tuning"),
        Setting("batch", "samples a batch, from 1 to the generated maximum"),
        Setting("rate", "a sample's learning rate, 17 bits"),
        Setting("mode", "how to run", (RAW, WRITE_LOGITS, RATES, STOP)),
    ]
    counters = [
        Counter("batches", "batches of the last command"),
        Counter("misses", "cache misses of the last command"),
        Counter("saturations", "numbers that the last command saturated", width=8),
    ]
    if early_stop:
        settings.append(Setting("stop_loss", "largest loss of an epoch that ends the tuning", group=1))
        counters.append(Counter("epoch_loss", "loss of the last whole epoch", width=32, group=1))
    if validation:
        settings += [
            Setting(
                "validation_samples", "order entries behind each epoch that are not learnt from, 0 for none", group=2
            ),
            Setting(
                "patience", "epochs in a row without a smaller loss that end the tuning, 0 for any number", group=2
            ),
        ]
        counters += [
            Counter("validation_loss", "loss of the last whole validation", width=32, group=2),
            Counter(
                "correct", "samples of the last whole validation that were classified correctly", width=32, group=2
            ),
        ]
    return CoreRegisters(name, Command, Error, tuple(settings), tuple(counters))
