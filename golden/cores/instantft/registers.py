"""Registers of `instantft`: the trainer's registers, and the address of the frozen parameters."""

from ..adapters.registers import Command, adapter_registers
from ..shell import Address

_PARAMETERS = Address(
    "parameters", "byte address (16-byte aligned) of the frozen parameters' image", commands=(Command.LOAD,)
)
CORE = adapter_registers("fabtune_instantft", _PARAMETERS)
"""Registers, commands and errors of `instantft`."""
STOPPING_CORE = adapter_registers("fabtune_instantft", _PARAMETERS, early_stop=True)
"""Registers with `early_stop`: two more."""
VALIDATING_CORE = adapter_registers("fabtune_instantft", _PARAMETERS, early_stop=True, validation=True)
"""Registers with `validation`: four more than with `early_stop`."""
REGISTERS = CORE.map
"""Register map of `instantft`."""
