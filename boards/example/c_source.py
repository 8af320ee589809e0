"""C header of an example, for ``boards/driver/example.c``."""

from __future__ import annotations

from ..selftest.c_source import error_names, setting_offset
from .job import Example


def header(example: Example) -> str:
    """Write the places and numbers of an example's job; its memory is a file of its own, the memory's `image`."""
    memory, spec = example.memory, example.spec
    places = [f"#define DIGITS_{name.upper()} 0x{offset:X}u" for name, offset in memory.addresses.items()]
    return "\n".join(
        [
            f"/* Digits for {spec.name}, signature 0x{spec.signature:08X}. Generated. */",
            "#ifndef DIGITS_H",
            "#define DIGITS_H",
            "",
            f'#define DIGITS_CORE "{spec.name}"',
            f"#define DIGITS_SIGNATURE 0x{spec.signature:08X}u",
            f"#define DIGITS_SETTING {setting_offset(spec)} /* offset of a register that is tried */",
            f"#define DIGITS_ERROR_NAMES {error_names(spec)} /* by code */",
            f"#define DIGITS_MEMORY_SIZE 0x{memory.end:X}u /* bytes that the job needs, at a multiple of 16 */",
            f"#define DIGITS_IMAGE_SIZE 0x{memory.image.size:X}u /* those of digits.bin, at its beginning */",
            "",
            "/* where in this memory */",
            *places,
            "",
            "/* settings of the core */",
            *(f"#define DIGITS_{name.upper()} {value}u" for name, value in example.settings.items()),
            "",
            "/* images that are tested, their logits in words of 32 bits, and how many golden classifies correctly */",
            f"#define DIGITS_TESTED {example.tested}u",
            f"#define DIGITS_CLASSES {example.classes}u",
            f"#define DIGITS_STRIDE {example.stride}u",
            f"#define DIGITS_CORRECT_BEFORE {example.before}u",
            f"#define DIGITS_CORRECT_AFTER {example.after}u",
            "",
            "#endif /* DIGITS_H */",
            "",
        ]
    )
