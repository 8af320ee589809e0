"""SystemRDL 2.0 of a register map, for generators of drivers, documentation and verification models."""

from __future__ import annotations

from collections.abc import Iterator

from .register_map import SIGNATURE, WORD, Access, Register, RegisterMap

_BITS = 8 * WORD
_ACCESS: dict[Access, tuple[str, ...]] = {
    "R": ("sw = r", "hw = w"),
    "W": ("sw = w", "hw = r", "swmod"),
    "RW": ("sw = rw", "hw = r"),
    # an event wins over a clear in the same cycle
    "W1C": ("sw = rw", "hw = w", "onwrite = woclr", "level intr", "precedence = hw"),
    "W1S": ("sw = rw", "hw = r", "onwrite = woset", "hwclr"),
}
_RESERVED = (
    " abstract accesstype addressingtype addrmap alias all bit boolean bothedge compact component componentwidth "
    "constraint default encode enum external false field fullalign hw inside internal level longint mem na negedge "
    "nonsticky number onreadtype onwritetype posedge property r rclr ref reg regalign regfile rset ruser rw rw1 signal "
    "string struct sw this true type unsigned w w1 wclr woclr woset wot wr wset wuser wzc wzs wzt "
)
"""Reserved words, each between spaces."""


def systemrdl(registers: RegisterMap, signature: int | None = None) -> str:
    """SystemRDL of a register map.

    A register without fields has one 32-bit field ``value``. Unnamed bits of an RW register are a field ``unused``,
    which keeps written values. Writes to locked registers are ignored while ``status.busy`` is high (``swwel``), or, in
    a map without this field, a signal ``locked``. Bits of a W1C register raise an interrupt if the register with the
    suffix `ENABLE` enables them.

    `signature` is the value of the constant register; without it no value is stated.
    """
    lines = [f"// Registers of {registers.name}. Generated."]
    for codes in registers.codes:
        lines.append(f"enum {_enumeration(registers, codes.__name__)} {{")
        lines += [f"    {_name(code.name.lower())} = {code.value};" for code in codes]
        lines.append("};")
    lines += [
        f"addrmap {_name(registers.name)} {{",
        '    desc = "An access to an address without a register, and a write to a register that is only read, are '
        'answered SLVERR.";',
        f"    default regwidth = {_BITS};",
        f"    default accesswidth = {_BITS};",
        "    littleendian;",
        "    lsb0;",
    ]
    for register in registers:
        lines += _register(registers, register, signature)
    lines += _references(registers)
    return "\n".join([*lines, "};", ""])


def _register(registers: RegisterMap, register: Register, signature: int | None) -> Iterator[str]:
    yield "    reg {"
    yield f"        desc = {_text(register.summary)};"
    properties = _ACCESS[register.access]
    if register.name == SIGNATURE:
        properties = ("sw = r", "hw = na")
    for name, low, width, summary in _fields(register):
        reset = register.reset if register.name != SIGNATURE else signature
        properties_of_field = [f"desc = {_text(summary)}", *properties]
        if reset is not None:
            properties_of_field.append(f"reset = {width}'h{reset >> low & (1 << width) - 1:x}")
        if (codes := _codes_of(registers, register, name)) is not None:
            properties_of_field.append(f"encode = {codes}")
        yield f"        field {{ {'; '.join(properties_of_field)}; }} {_name(name)}[{low + width - 1}:{low}];"
    yield f"    }} {_name(register.name)} @ 0x{register.offset:02X};"


def _fields(register: Register) -> list[tuple[str, int, int, str]]:
    if not register.fields:
        return [("value", 0, _BITS, register.summary)]
    fields = [(item.name, item.low, item.width, item.summary) for item in register.fields]
    named = sum(item.mask for item in register.fields)
    low, number = 0, 0
    while register.access == "RW" and low < _BITS:
        width = next((bit for bit in range(_BITS - low) if named >> (low + bit) & 1), _BITS - low)
        if width:
            name = f"unused{number or ''}"
            fields.append((name, low, width, "kept and given back; write 0"))
            number += 1
        low += width or 1
    return sorted(fields, key=lambda field: field[1])


def _codes_of(registers: RegisterMap, register: Register, field: str) -> str | None:
    """Enumeration for a field, by the register's or the field's name; None without codes."""
    for codes in registers.codes:
        kind = codes.__name__.lower()
        if field == f"{kind}_code" or (field == "value" and register.name == kind):
            return _enumeration(registers, kind)
    return None


def _references(registers: RegisterMap) -> Iterator[str]:
    if any(register.locked for register in registers):
        status = next((item for item in registers if item.name == "status"), None)
        lock = "status.busy" if status and any(item.name == "busy" for item in status.fields) else "locked"
        if lock == "locked":
            yield '    signal { desc = "writes to locked registers are ignored while this is high"; } locked;'
        for register in registers:
            for name, *_ in _fields(register) if register.locked else ():
                yield f"    {_name(register.name)}.{_name(name)}->swwel = {lock};"
    for register, event in registers.events:
        enable = registers.enable(register)
        if enable and any(item.low == event.low for item in enable.fields):
            by = next(item.name for item in enable.fields if item.low == event.low)
            yield f"    {_name(register.name)}.{_name(event.name)}->enable = {_name(enable.name)}.{_name(by)};"


def _enumeration(registers: RegisterMap, kind: str) -> str:
    return f"{registers.name}_{kind.lower()}"


def _name(name: str) -> str:
    return f"\\{name}" if f" {name} " in _RESERVED else name


def _text(summary: str) -> str:
    return '"' + summary.replace("\\", "\\\\").replace('"', '\\"') + '"'
