"""Draw the block diagrams of the pages as SVG: `python docs/diagrams.py` writes docs/images/.

The drawings are committed, so that a forge shows them; `tests/test_pages.py` compares them with what this script draws.
They bring their own light background and are legible on dark pages too.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import escape

IMAGES = Path(__file__).parent / "images"

INK, MUTED, LINE = "#1f2328", "#57606a", "#57606a"
PAPER, PANEL, FRAME = "#ffffff", "#f6f8fa", "#d0d7de"
BLUE, GREEN, AMBER, GREY = "#ddf4ff", "#dafbe1", "#fff1c9", "#eaeef2"

Point = tuple[float, float]


def text(
    x: float, y: float, words: str, size: int = 13, weight: int = 400, colour: str = INK, anchor: str = "middle"
) -> str:
    """One line of text; (x, y) is its base line, at its middle unless `anchor` says otherwise."""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}" fill="{colour}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )


def rectangle(
    x: float, y: float, width: float, height: float, fill: str, stroke: str = FRAME, dashed: bool = False
) -> str:
    """A rectangle with round corners."""
    dash = ' stroke-dasharray="6 4"' if dashed else ""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" fill="{fill}" '
        f'stroke="{stroke}" stroke-width="1.5"{dash}/>'
    )


def box(
    x: float, y: float, width: float, height: float, title: str, lines: Iterable[str], fill: str, dashed: bool = False
) -> str:
    """A block: its title in bold, below it lines of explanation, all centred."""
    lines = tuple(lines)
    middle, step = x + width / 2, 16
    top = y + (height - step * len(lines)) / 2 + 5
    parts = [rectangle(x, y, width, height, fill, stroke="#8c959f", dashed=dashed), text(middle, top, title, 15, 600)]
    parts += [text(middle, top + step * (row + 1) + 1, line, 13, colour=MUTED) for row, line in enumerate(lines)]
    return "\n".join(parts)


def arrow(*points: Point, both: bool = False, dashed: bool = False) -> str:
    """A line through the points with a head at its end, or at both ends."""
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    start = ' marker-start="url(#tail)"' if both else ""
    dash = ' stroke-dasharray="6 4"' if dashed else ""
    return (
        f'<polyline points="{path}" fill="none" stroke="{LINE}" stroke-width="1.6"{dash}{start} '
        f'marker-end="url(#head)"/>'
    )


def drawing(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    """A whole SVG file with a light background, a title for screen readers and the arrow heads."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="Helvetica, Arial, DejaVu Sans, sans-serif">\n<title>{escape(title)}</title>\n<defs>\n'
        f'<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0,0 L8,4 L0,8 z" fill="{LINE}"/></marker>\n'
        f'<marker id="tail" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M8,0 L0,4 L8,8 z" fill="{LINE}"/></marker>\n</defs>\n'
    )
    frame = rectangle(1, 1, width - 2, height - 2, PAPER)
    return head + frame + "\n" + "\n".join(parts) + "\n</svg>\n"


def adapter_trainer() -> list[str]:
    """The InstantFT core between host and memory; the left panel."""
    return [
        rectangle(16, 16, 628, 356, PANEL),
        text(32, 42, "Adapters: the InstantFT core", 17, 700, anchor="start"),
        text(32, 62, "A frozen network; low-rank adapters are tuned by gradients.", 13, colour=MUTED, anchor="start"),
        rectangle(160, 74, 468, 282, PAPER, dashed=True),
        text(174, 90, "in the fabric", 13, colour=MUTED, anchor="start"),
        box(32, 96, 92, 60, "Host", ["driver"], GREY),
        box(32, 196, 92, 144, "DRAM", ["samples", "weights", "adapters", "records"], GREY),
        box(176, 96, 436, 60, "Shell", ["registers, commands, errors, interrupt, counters"], BLUE),
        box(176, 196, 116, 144, "Memory", ["AXI bursts", "arbiters", "batches"], BLUE),
        box(330, 196, 130, 62, "Forward engine", ["conv, fc, pooling"], GREEN),
        box(330, 282, 130, 58, "Forward cache", ["NF4, 4 bits"], GREEN),
        box(498, 196, 114, 62, "Loss", ["softmax"], AMBER),
        box(498, 282, 114, 58, "Adapters", ["A, B: update"], AMBER),
        arrow((124, 126), (176, 126), both=True),
        arrow((124, 268), (176, 268), both=True),
        arrow((234, 156), (234, 196)),
        arrow((292, 227), (330, 227)),
        arrow((292, 311), (330, 311), both=True),
        arrow((395, 258), (395, 282)),
        arrow((460, 227), (498, 227)),
        arrow((460, 311), (498, 311)),
        arrow((555, 258), (555, 282), both=True),
    ]


def zeroth_trainer() -> list[str]:
    """The zeroth-order core between host and memory; the right panel."""
    return [
        rectangle(660, 16, 404, 356, PANEL),
        text(676, 42, "Zeroth order: the zotrain core", 17, 700, anchor="start"),
        text(676, 62, "Forward passes only; all weights of a network.", 13, colour=MUTED, anchor="start"),
        rectangle(676, 74, 372, 282, PAPER, dashed=True),
        text(690, 90, "in the fabric", 13, colour=MUTED, anchor="start"),
        box(692, 96, 160, 58, "Generator", ["64 LUTs: LFSRs, scale"], GREEN),
        box(692, 196, 160, 58, "Deltas", ["+ c z, 32 kB folded"], AMBER),
        box(692, 286, 160, 58, "Offsets", ["deltas +- eps z"], AMBER),
        box(880, 286, 152, 58, "Forward engine", ["weights + offsets"], GREEN),
        box(880, 196, 152, 58, "Loss difference", ["softmax, both sides"], AMBER),
        box(880, 96, 152, 58, "Coefficient", ["x rate, rounded"], AMBER),
        arrow((772, 154), (772, 196)),
        arrow((772, 254), (772, 286)),
        arrow((852, 315), (880, 315)),
        arrow((956, 286), (956, 254)),
        arrow((956, 196), (956, 154)),
        arrow((880, 125), (866, 125), (866, 225), (852, 225)),
    ]


def zeroth_core() -> str:
    """The zeroth-order core in detail: the picture of its page."""
    parts = [
        rectangle(16, 16, 868, 478, PANEL),
        rectangle(160, 30, 708, 448, PAPER, dashed=True),
        text(174, 48, "zotrain", 14, 600, anchor="start"),
        box(32, 60, 96, 60, "Host", ["driver"], GREY),
        box(32, 196, 96, 150, "DRAM", ["samples", "order list", "weights", "deltas", "records"], GREY),
        box(176, 60, 676, 50, "Shell", ["registers, commands, checks, errors, interrupt, counters"], BLUE),
        box(176, 196, 104, 150, "Memory", ["AXI bursts", "arbiters", "step", "scheduler"], BLUE),
        box(320, 140, 160, 58, "Generator", ["pezo, with replay"], GREEN),
        box(320, 226, 160, 58, "Delta memory", ["delta + k z, a DSP each"], AMBER),
        box(320, 312, 160, 58, "Offset memory", ["both sides of a step"], AMBER),
        box(520, 312, 160, 58, "Forward engine", ["saturate (w0 + offset)"], GREEN),
        box(520, 140, 160, 58, "Coefficient", ["sum x rate >> shift"], AMBER),
        box(520, 226, 160, 58, "Loss difference", ["softmax, trapezoid"], AMBER),
        box(720, 226, 132, 58, "Records", ["position, c, dL, p"], BLUE),
        box(720, 312, 132, 58, "Logits", ["of an inference"], BLUE),
        box(564, 406, 160, 58, "Cut memory", ["outputs of the first part"], GREEN),
        arrow((128, 86), (176, 86), both=True),
        arrow((128, 270), (176, 270), both=True),
        arrow((400, 198), (400, 226)),
        arrow((400, 284), (400, 312)),
        arrow((480, 341), (520, 341)),
        arrow((600, 312), (600, 284)),
        arrow((600, 226), (600, 198)),
        arrow((520, 169), (500, 169), (500, 255), (480, 255)),
        arrow((680, 255), (720, 255)),
        arrow((680, 341), (720, 341)),
        arrow((280, 330), (300, 330), (300, 386), (548, 386), (548, 370)),
        arrow((644, 370), (644, 406), both=True),
    ]
    return drawing(900, 510, "zotrain: generator, deltas, offsets, forward engine, cut memory, loss difference", parts)


def contract() -> list[str]:
    """The three places that hold the same bits; the panel at the bottom."""
    return [
        rectangle(16, 388, 1048, 128, PANEL),
        text(32, 414, "One contract, bit by bit", 17, 700, anchor="start"),
        box(32, 430, 248, 70, "golden", ["integer model in Python,", "float PyTorch beside it"], GREEN),
        box(416, 430, 248, 70, "RTL", ["Amaranth to Verilog,", "in Verilator and Icarus"], BLUE),
        box(800, 430, 248, 70, "board", ["captures of ZCU102, KV260", "or of any simulator"], GREY),
        text(348, 468, "=", 34, 700),
        text(348, 492, "fabtune verify", 13, colour=MUTED),
        text(732, 468, "=", 34, 700),
        text(732, 492, "fabtune compare", 13, colour=MUTED),
    ]


def overview() -> str:
    """Both trainers, and golden = RTL = board below them: the picture of the README."""
    title = "fabtune: two trainers for the FPGA's fabric, and golden model = RTL = board"
    return drawing(1080, 532, title, [*adapter_trainer(), *zeroth_trainer(), *contract()])


def packages() -> list[str]:
    """The five packages, upper ones import lower ones; the left part of the architecture."""
    rows = (
        ("scripts", "command line, reports", GREY),
        ("sim", "benches, compiled simulator, captures", BLUE),
        ("boards", "ZCU102, KV260, host driver, estimates", BLUE),
        ("hw", "RTL in Amaranth", GREEN),
        ("golden", "specifications and integer models", AMBER),
    )
    parts = [text(32, 42, "Packages", 17, 700, anchor="start")]
    for row, (name, words, fill) in enumerate(rows):
        top = 60 + 72 * row
        parts.append(box(32, top, 300, 52, name, [words], fill))
        if row:
            parts.append(arrow((182, top - 20), (182, top)))
    return parts


def areas() -> list[str]:
    """The areas inside golden and hw, upper ones import lower ones; the right part of the architecture."""
    return [
        text(400, 42, "Areas in golden and hw", 17, 700, anchor="start"),
        box(400, 60, 392, 52, "cores", ["shell, memory system, trainers"], AMBER),
        box(400, 156, 184, 52, "lora", ["adapters, forward cache"], BLUE),
        box(608, 156, 184, 52, "zo", ["perturbed weights"], BLUE),
        box(400, 252, 184, 52, "nn", ["mapping, forward engine"], GREEN),
        box(400, 348, 120, 52, "axi", ["bursts, registers"], GREY),
        box(536, 348, 120, 52, "nf4", ["4-bit format"], GREY),
        box(672, 348, 120, 52, "rng", ["random numbers"], GREY),
        arrow((492, 112), (492, 156)),
        arrow((700, 112), (700, 156)),
        arrow((492, 208), (492, 252)),
        arrow((460, 304), (460, 348)),
        arrow((584, 182), (596, 182), (596, 348)),
        arrow((640, 208), (640, 348)),
        arrow((732, 208), (732, 348)),
        text(400, 424, "The main imports; tests/test_layers.py has all. Below lie numbers,", 13, 400, MUTED, "start"),
        text(400, 442, "the contract of a block (golden), FIFOs, trees and rounding (hw).", 13, 400, MUTED, "start"),
    ]


def architecture() -> str:
    """Packages and areas with the direction of imports."""
    return drawing(820, 464, "Packages and areas of fabtune and what imports what", [*packages(), *areas()])


DRAWINGS = {"overview.svg": overview, "architecture.svg": architecture, "zotrain.svg": zeroth_core}
"""What is drawn, by the file's name."""


def main() -> None:
    """Write every drawing into a folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=IMAGES)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in DRAWINGS.items():
        (folder / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
