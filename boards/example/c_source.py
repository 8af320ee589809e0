"""C header of an example, for ``boards/driver/example.c``."""

from __future__ import annotations

from ..selftest.c_source import error_names, setting_offset
from .job import Example


def header(example: Example) -> str:
    """Header with the offsets and numbers of an example's job; the job's memory is a separate file."""
    memory, spec = example.memory, example.spec
    before, after = example.logits
    places = [f"#define EXAMPLE_{name.upper()} 0x{offset:X}u" for name, offset in memory.addresses.items()]
    return "\n".join(
        [
            f"/* Example of {spec.name}, signature 0x{spec.signature:08X}. Generated. */",
            "#ifndef EXAMPLE_JOB_H",
            "#define EXAMPLE_JOB_H",
            "",
            f'#define EXAMPLE_CORE "{spec.name}"',
            f"#define EXAMPLE_SIGNATURE 0x{spec.signature:08X}u",
            f"#define EXAMPLE_SETTING {setting_offset(spec)} /* offset of a register that is tried */",
            f"#define EXAMPLE_ERROR_NAMES {error_names(spec)} /* by code */",
            f"#define EXAMPLE_MEMORY_SIZE 0x{memory.end:X}u /* bytes that the job needs, at a multiple of 16 */",
            f"#define EXAMPLE_IMAGE_SIZE 0x{memory.image.size:X}u /* those of example.bin, at its beginning */",
            "",
            "/* where in this memory */",
            *places,
            "",
            "/* settings of the core */",
            *(f"#define EXAMPLE_{name.upper()} {value}u" for name, value in example.settings.items()),
            "",
            "/* samples that are tested, their logits in words of 32 bits, and how many golden classifies correctly */",
            f"#define EXAMPLE_TESTED {example.tested}u",
            f"#define EXAMPLE_CLASSES {example.classes}u",
            f"#define EXAMPLE_STRIDE {example.stride}u",
            f"#define EXAMPLE_CORRECT_BEFORE {example.before}u",
            f"#define EXAMPLE_CORRECT_AFTER {example.after}u",
            f"#define EXAMPLE_LOGITS_SIZE 0x{before.size:X}u",
            f"#define EXAMPLE_CRC32_BEFORE 0x{before.crc32:08X}u",
            f"#define EXAMPLE_CRC32_AFTER 0x{after.crc32:08X}u",
            "",
            "#endif /* EXAMPLE_JOB_H */",
            "",
        ]
    )
