"""Draw the block diagrams of the pages as SVG: `python docs/diagrams.py` writes docs/images/.

The drawings are committed, so that a forge shows them; `tests/test_pages.py` compares them with what this script draws.
They bring their own light background and are legible on dark pages too.
"""

import argparse
from collections.abc import Iterable
from math import log2
from pathlib import Path
from xml.sax.saxutils import escape

from fabtune.golden.cores.zostream.zostream import ZostreamSpec
from fabtune.golden.stream.machine.cost_model import StepCost, on_paper
from fabtune.scripts.tuning.transformer_cost import transformer_of

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


def stream_core() -> str:
    """The streaming core in detail: the picture of its page."""
    parts = [
        rectangle(16, 16, 968, 528, PANEL),
        rectangle(160, 30, 808, 498, PAPER, dashed=True),
        text(174, 48, "zostream", 14, 600, anchor="start"),
        box(32, 60, 96, 60, "Host", ["driver"], GREY),
        box(
            32,
            206,
            96,
            290,
            "DRAM",
            ["program", "NF4 stream", "sensitive", "samples", "order list", "deltas", "records"],
            GREY,
        ),
        box(176, 60, 776, 46, "Shell", ["registers, commands, checks, errors, interrupt, counters"], BLUE),
        box(176, 206, 104, 290, "Memory", ["AXI bursts", "arbiters", "steps", "passes"], BLUE),
        box(312, 130, 176, 56, "Generator, deltas", ["255 x 31, + c z"], AMBER),
        box(312, 206, 176, 56, "Word offsets", ["deltas +- eps z"], AMBER),
        box(312, 282, 176, 56, "Tile weights", ["NF4, both sides"], GREEN),
        box(312, 358, 176, 56, "Program", ["checked; instructions"], BLUE),
        box(312, 440, 176, 56, "Sample loader", ["tokens, both sides"], BLUE),
        box(528, 282, 176, 56, "Array", ["tiles, exact sums"], GREEN),
        box(528, 206, 176, 56, "Stationary load", ["keys and values"], GREEN),
        box(528, 358, 176, 56, "Softmax, contexts", ["4 a cycle"], AMBER),
        box(528, 440, 424, 56, "Activation memory", ["rows of 24 bits, sums of 27 bits, of a pass"], BLUE),
        box(744, 282, 208, 56, "Value path", ["round, GELU, add, gate"], AMBER),
        box(744, 358, 208, 56, "Norm, rotary, pool", ["8, 4 and 16 values"], AMBER),
        box(744, 130, 208, 56, "Coefficient", ["sum x rate >> shift"], AMBER),
        box(744, 206, 208, 56, "Loss difference", ["logits of both sides"], AMBER),
        arrow((128, 86), (176, 86), both=True),
        arrow((128, 350), (176, 350), both=True),
        arrow((400, 186), (400, 206)),
        arrow((400, 262), (400, 282)),
        arrow((280, 310), (312, 310)),
        arrow((280, 386), (312, 386)),
        arrow((280, 468), (312, 468)),
        arrow((488, 468), (528, 468)),
        arrow((488, 310), (528, 310)),
        arrow((616, 262), (616, 282)),
        arrow((616, 338), (616, 358), both=True),
        arrow((716, 440), (716, 350), (696, 350), (696, 338)),
        arrow((704, 300), (744, 300)),
        arrow((930, 338), (930, 350), (960, 350), (960, 468), (952, 468)),
        arrow((848, 414), (848, 440), both=True),
        arrow((528, 452), (508, 452), (508, 234), (528, 234)),
        arrow((732, 440), (732, 234), (744, 234)),
        arrow((848, 206), (848, 186)),
        arrow((744, 158), (488, 158)),
    ]
    return drawing(1000, 560, "zostream: memory, weights of both sides, array, functions, losses, deltas", parts)


LAYER = (
    ("query", 37_341), ("key", 37_697), ("value", 37_697), ("attention", 24_810), ("output", 40_283), ("norm", 7_139),
    ("up and GELU", 147_933), ("down", 151_231), ("norm", 7_139),
)  # fmt: skip
"""Cycles of a layer of MiniLM, 2 sentences of 32 tokens, as `fabtune cost minilm --measure small` prints them."""


def layer_schedule() -> str:
    """Two times: a layer of MiniLM, operation by operation, and in it two groups of outputs of the first one."""
    parts = [text(24, 32, "A layer of MiniLM, 128 rows of both sides, cycles measured", 15, 700, anchor="start")]
    left, width, whole, at = 24.0, 952.0, sum(cycles for _, cycles in LAYER), 0
    for name, cycles in LAYER:
        x, wide = left + width * at / whole, width * cycles / whole
        fill = AMBER if name in ("attention", "norm") else GREEN
        parts.append(rectangle(x, 50, wide, 44, fill, stroke="#8c959f"))
        if name == "norm":
            parts.append(text(x + wide / 2, 114, "norm", 12, colour=MUTED))
        else:
            parts += [text(x + wide / 2, 70, name, 12), text(x + wide / 2, 86, f"{cycles / 1000:.1f} k", 12)]
        at += cycles
    parts.append(text(24, 114, f"{whole:,} cycles, one operation after the other", 13, colour=MUTED, anchor="start"))
    parts.append(text(24, 152, "In a linear layer: two groups of 16 outputs", 15, 700, anchor="start"))
    scale, first, rows, tiles = 780 / 3584, 184.0, 128, 12
    lanes = (("weights", 168), ("array", 214), ("sums leave", 260))
    parts += [text(24, y + 24, name, 13, anchor="start") for name, y in lanes]
    for group in range(2):
        for tile in range(tiles):
            x = first + scale * rows * (group * tiles + tile)
            # the next tile comes in beside the rows of both sides of this one
            parts.append(rectangle(x - scale * 32, 168, scale * 32, 36, BLUE, stroke="#8c959f"))
            half = scale * rows / 2
            parts += [rectangle(x + side * half, 214, half, 36, (GREEN, AMBER)[side]) for side in (0, 1)]
        end = first + scale * rows * (tiles * (group + 1) - 1)
        parts.append(rectangle(end, 260, scale * rows * 4, 36, (GREY, BLUE)[group]))
        parts.append(text(end + scale * rows * 2, 283, f"group {group}, 512", 12))
    names = ("blue: a tile of 32 x 16, 16 cycles a side", "green, amber: 64 rows of the plus, then of the minus side")
    parts += [text(184 + 330 * place, 318, name, 13, colour=MUTED, anchor="start") for place, name in enumerate(names)]
    return drawing(1000, 334, "Schedule of a layer, and of two groups of outputs", parts)


STEPS = (("vit-digits", 20, 17), ("minilm", 16, 32), ("mlp-20m", 20, 1), ("smollm2-135m", 2, 24))
"""Networks of the roofline, their samples of a step, and tokens."""


def roofline() -> str:
    """Products a cycle over products a byte of DRAM: roofs of array and port, and networks on both larger presets."""
    left, top, width, height = 90.0, 40.0, 640.0, 340.0
    low, high, least, most = 4, 9, 6, 11  # powers of two

    def place(intensity: float, rate: float) -> Point:
        x = left + width * (log2(intensity) - low) / (high - low)
        return x, top + height * (most - log2(rate)) / (most - least)

    parts = [rectangle(left, top, width, height, PAPER)]
    for power in range(low, high + 1):
        x, _ = place(2**power, 2**least)
        parts.append(text(x, top + height + 20, f"{2**power}", 12, colour=MUTED))
    for power in range(least, most + 1):
        _, y = place(2**low, 2**power)
        parts.append(text(left - 8, y + 4, f"{2**power:,}", 12, colour=MUTED, anchor="end"))
    parts.append(text(left + width / 2, top + height + 44, "multiply-accumulates for a byte read from DRAM", 13))
    parts.append(text(left, 26, "multiply-accumulates a cycle", 13, anchor="start"))
    legend = 60.0
    for preset, fill in (("small", BLUE), ("fast", GREEN)):
        size = ZostreamSpec(**ZostreamSpec.presets[preset]).size  # type: ignore[arg-type]
        roof, port = size.multipliers, size.port_bytes
        line = (place(2**low, port * 2**low), place(roof / port, roof), place(2**high, roof))
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in line)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{LINE}" stroke-width="1.6"/>')
        parts.append(text(left + width - 6, line[1][1] - 6, f"{size.lanes} x {size.columns}", 12, anchor="end"))
        parts.append(text(750, legend, f"{preset}, {size.lanes} x {size.columns}", 13, 600, anchor="start"))
        for number, (name, samples, tokens) in enumerate(STEPS):
            if preset == "fast" and name == "vit-digits":  # its heads have 16 features
                continue
            cost = StepCost(on_paper(transformer_of(name)[0]), (tokens,) * samples, size)
            x, y = place(cost.products / cost.bytes_read, cost.products / cost.cycles)
            legend += 22
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="9" fill="{fill}" stroke="{INK}"/>')
            parts.append(text(round(x, 1), round(y + 4, 1), f"{number + 1}", 11))
            share = 100 * cost.ideal_cycles / cost.cycles
            parts.append(text(750, legend, f"{number + 1}  {name}: {share:.0f} % of the array", 13, anchor="start"))
        legend += 40
    parts.append(text(750, legend, "One port of 11.2 bytes a cycle,", 13, colour=MUTED, anchor="start"))
    parts.append(text(750, legend + 18, "the same on both boards", 13, colour=MUTED, anchor="start"))
    return drawing(1010, 450, "Roofline of zostream: array, memory port, and networks", parts)


def transformer_trainer() -> list[str]:
    """The streaming core from memory to deltas; the panel below the other two."""
    return [
        rectangle(16, 388, 1048, 190, PANEL),
        text(32, 414, "Transformers: the zostream core", 17, 700, anchor="start"),
        text(
            32,
            434,
            "All weights by zeroth order, in 4 bits from DRAM; a program says the layers, so one bitstream runs all.",
            13,
            colour=MUTED,
            anchor="start",
        ),
        rectangle(160, 446, 888, 116, PAPER, dashed=True),
        text(174, 462, "in the fabric", 13, colour=MUTED, anchor="start"),
        box(32, 468, 92, 76, "DRAM", ["program", "weights"], GREY),
        box(176, 472, 152, 68, "Weights", ["NF4 + deltas +- eps z"], BLUE),
        box(364, 472, 140, 68, "Array", ["both sides at once"], GREEN),
        box(540, 472, 140, 68, "Functions", ["norm, softmax"], GREEN),
        box(716, 472, 140, 68, "Loss difference", ["coefficient c"], AMBER),
        box(892, 472, 140, 68, "Deltas", ["+ c z, 32 kB"], AMBER),
        arrow((124, 506), (176, 506)),
        arrow((328, 506), (364, 506)),
        arrow((504, 506), (540, 506), both=True),
        arrow((680, 506), (716, 506)),
        arrow((856, 506), (892, 506)),
        arrow((962, 540), (962, 552), (252, 552), (252, 540)),
    ]


def contract() -> list[str]:
    """Golden and RTL, which hold the same bits, and the board, whose captures are compared; the panel at the bottom."""
    return [
        rectangle(16, 594, 1048, 128, PANEL),
        text(32, 620, "One contract, bit by bit", 17, 700, anchor="start"),
        box(32, 636, 248, 70, "golden", ["integer model in Python,", "float PyTorch beside it"], GREEN),
        box(416, 636, 248, 70, "RTL", ["Amaranth to Verilog,", "in Verilator and Icarus"], BLUE),
        box(800, 636, 248, 70, "board", ["ZCU102 or KV260:", "none has run yet"], GREY, dashed=True),
        text(348, 674, "=", 34, 700),
        text(348, 698, "fabtune verify", 13, colour=MUTED),
        arrow((788, 666), (676, 666), dashed=True),
        text(732, 656, "captures", 13, colour=MUTED),
        text(732, 698, "fabtune compare", 13, colour=MUTED),
    ]


def overview() -> str:
    """The three cores, and golden = RTL below them: the picture of the README."""
    title = "fabtune: three trainers for the FPGA's fabric; golden model = RTL, and a board's captures are compared"
    panels = [*adapter_trainer(), *zeroth_trainer(), *transformer_trainer(), *contract()]
    return drawing(1080, 738, title, panels)


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
        box(400, 156, 120, 52, "stream", ["transformers"], BLUE),
        box(536, 156, 120, 52, "lora", ["adapters, cache"], BLUE),
        box(672, 156, 120, 52, "zo", ["perturbations"], BLUE),
        box(400, 252, 184, 52, "nn", ["mapping, forward engine"], GREEN),
        box(400, 348, 120, 52, "axi", ["bursts, registers"], GREY),
        box(536, 348, 120, 52, "nf4", ["4-bit format"], GREY),
        box(672, 348, 120, 52, "rng", ["random numbers"], GREY),
        arrow((460, 112), (460, 156)),
        arrow((596, 112), (596, 156)),
        arrow((732, 112), (732, 156)),
        arrow((460, 208), (460, 252)),
        arrow((560, 208), (560, 252)),
        arrow((460, 304), (460, 348)),
        arrow((610, 208), (610, 348)),
        arrow((690, 208), (690, 300), (640, 300), (640, 348)),
        arrow((732, 208), (732, 348)),
        text(400, 424, "The main imports; tests/test_layers.py has all. Below lie", 13, 400, MUTED, "start"),
        text(400, 442, "numbers, a block's contract (golden), FIFOs and rounding (hw).", 13, 400, MUTED, "start"),
    ]


def architecture() -> str:
    """Packages and areas with the direction of imports."""
    return drawing(820, 464, "Packages and areas of fabtune and what imports what", [*packages(), *areas()])


DRAWINGS = {
    "overview.svg": overview,
    "architecture.svg": architecture,
    "zotrain.svg": zeroth_core,
    "zostream.svg": stream_core,
    "zostream-layer.svg": layer_schedule,
    "zostream-roofline.svg": roofline,
}
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
