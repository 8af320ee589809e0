"""Formats and interfaces of the forward engine.

The directions of a `wiring.Signature` here are those of the side that asks: the source of samples, the
writer of activations. The other side has the flipped one.
"""

from amaranth.hdl import Shape, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Member, Out
from amaranth.utils import exact_log2

from ...golden.axi.bus import BEAT
from ...golden.fixed import Q4_12, Q8_16
from ...golden.nn.array.mapping import Mapping
from ..ports import PlainSignature
from .array_port import NETWORK_FORMATS

ACTIVATION = signed(Q8_16.width)
"""An activation in Q8.16."""
PARAMETER = signed(Q4_12.width)
"""A weight, bias or adapter parameter in Q4.12."""
PRODUCT = NETWORK_FORMATS.product
"""An activation times a parameter, 28 bits behind the point."""
BEAT_BITS = 8 * BEAT
"""Bits of a beat of the memory bus."""
BEATS = stream.Signature(BEAT_BITS)
"""A stream of beats of the memory bus."""


def activation_address(mapping: Mapping) -> Shape:
    """Return the shape of an address in the activation memory, which addresses single values."""
    return unsigned((mapping.activation_values - 1).bit_length())


def activations_per_write(mapping: Mapping) -> int:
    """Return the most values that one write of the activation memory stores."""
    return max(mapping.columns, mapping.row_replicas)


LOGIT = stream.Signature(data.StructLayout({"logit": ACTIVATION, "last": 1}))
"""A stream of logits in Q8.16, with a flag on a sample's last one."""


class ActivationWrite(wiring.Signature):
    """A write to the activation memory: a run of neighbours, or one value at the same column of several rows.

    Attributes
    ----------
    write : Out, a bit for each element
        The elements that are stored in this cycle.
    address : Out, `activation_address`
        Address of element 0. Element e goes to ``address + e``, with `replicate` to ``address + e - e * pitch``.
    values : Out, array of columns Q8.16
        The elements of a run.
    replicate : Out, 1
        All elements are `value`.
    value : Out, Q8.16
        The value to replicate.
    """

    def __init__(self, mapping: Mapping) -> None:
        super().__init__(
            {
                "write": Out(activations_per_write(mapping)),
                "address": Out(activation_address(mapping)),
                "values": Out(data.ArrayLayout(ACTIVATION, mapping.columns)),
                "replicate": Out(1),
                "value": Out(ACTIVATION),
            }
        )


class SampleInput(wiring.Signature):
    """Samples into the forward engine, one after the other.

    Attributes
    ----------
    start : Out, 1
        A sample begins, for one cycle, while `room` is 1 and the sample before has been written.
    room : In, 1
        A buffer for a sample is free.
    done : In, 1
        The sample's last value is written, for one cycle; the next one may begin in the cycle after.
    beats : Out stream of beats
        The sample's image, `Mapping.sample_beats` beats; taken after `start`.
    """

    def __init__(self) -> None:
        super().__init__({"start": Out(1), "room": In(1), "done": In(1), "beats": Out(BEATS)})


class StageOutputs(wiring.Signature):
    """Outputs of the stages, as the forward engine gives them to a reader.

    Outputs lie in the order of their computation: at address `StageMapping.output` + group * cells + cell, in the
    column of their channel within its group.

    Parameters
    ----------
    mapping : Mapping
    reads : int
        Values that are read at once, 1 or 2.

    Attributes
    ----------
    filled : Out, a bit for each stage, and of a stage for each of `Mapping.sides`
        Its outputs are complete, for one cycle; they may be read from two cycles later on. With two sides only of the
        last stage of a pass.
    full : In, the same bits
        Its outputs are still to be read, from the cycle after `filled` on: the stage waits with the next sample's.
        A reader that does not want a stage's outputs leaves the bit 0.
    enable : In, 1
        Read.
    side : In, 1, only with two sides
        Side whose output is read.
    address : In, range(output_depth)
    column : In, log2(columns) bits
    value : Out, Q8.16
        The value at `address` and `column` of the last cycle with `enable`, one cycle later; it stays until the next.
    second_address, second_column, second_value
        Only where two values are read at once: as those above, for a value in another column at the same address, or
        at a neighbouring address in the same column.
    """

    def __init__(self, mapping: Mapping, reads: int = 1) -> None:
        bits = len(mapping.stages) * mapping.sides
        members = {
            "filled": Out(bits),
            "full": In(bits),
            "enable": In(1),
            "address": In(range(mapping.output_depth)),
            "column": In(exact_log2(mapping.columns)),
            "value": Out(ACTIVATION),
        }
        if mapping.sides == 2:
            members["side"] = In(1)
        if reads == 2:
            members |= {f"second_{name}": members[name] for name in ("address", "column", "value")}
        super().__init__(members)


class Offsets(wiring.Signature):
    """Offsets of the parameters, as the forward engine reads them: each is added before a parameter is used.

    A weight word is divided into equal parts of neighbours; parameter j of a part takes its offset j mod n.

    Parameters
    ----------
    mapping : Mapping
    numbers, parts : int
        Offsets of a part, n, and parts of a word, a power of two.
    latency : int
        Cycles from the number of a weight word to its offsets, 1 or 3.

    Attributes
    ----------
    weight : Out, range(weight_words)
        Number of a weight word.
    side : Out, 1
        Side of the perturbation from which the word's offsets are, one cycle before `numbers`.
    numbers : In, array of parts * n Q4.12
        The word's offsets, part by part, `latency` cycles after `weight`.
    bias : Out, range(groups)
        Number of a group of biases.
    bias_side : Out, 1
        Their side.
    biases : In, array of columns Q4.12
        Their offsets, one cycle later.
    """

    def __init__(self, mapping: Mapping, numbers: int, parts: int = 1, latency: int = 1) -> None:
        self.latency = latency
        self.of_parameter = tuple(
            part * numbers + j % numbers
            for part in range(parts)
            for j in range(mapping.lanes * mapping.columns // parts)
        )
        super().__init__(
            {
                "weight": Out(range(mapping.weight_words)),
                "side": Out(1),
                "numbers": In(data.ArrayLayout(PARAMETER, parts * numbers)),
                "bias": Out(range(mapping.groups)),
                "bias_side": Out(1),
                "biases": In(data.ArrayLayout(PARAMETER, mapping.columns)),
            }
        )


class Passes(wiring.Signature):
    """Range of stages that passes run, and what they read, as the side sees it that controls the forward engine.

    All but `restart` stay the same while samples of their kind are computed.

    Parameters
    ----------
    mapping : Mapping

    Attributes
    ----------
    first, last : Out, range(stages)
        First and last stage of a pass.
    cut : Out, range(stages)
        First stage of the network's second part, not 0, where outputs of the first one are recorded and restored.
    record : Out, 1
        Outputs of the last stage are recorded. Rises before the first of these passes.
    restore : Out, 1
        Passes begin with recorded outputs, in the order in which they were recorded, and not with samples.
    restart : Out, 1
        Restore from the first recorded pass on; one cycle, before `hold` falls.
    """

    def __init__(self, mapping: Mapping) -> None:
        stage = range(len(mapping.stages))
        flags = ("record", "restore", "restart")
        super().__init__({**dict.fromkeys(("first", "last", "cut"), Out(stage)), **{name: Out(1) for name in flags}})


class CutRow(data.StructLayout):
    """Outputs of all columns of a network's first part, as they are kept for passes of its second part.

    Attributes
    ----------
    mask : a bit for each column
        Columns that have an output.
    address : `activation_address`
        Where the first column's output goes in the activation memory.
    values : array of columns Q8.16
    """

    def __init__(self, mapping: Mapping) -> None:
        values = data.ArrayLayout(ACTIVATION, mapping.columns)
        super().__init__({"mask": mapping.columns, "address": activation_address(mapping), "values": values})


class CutRows(wiring.Signature):
    """Port of a memory of `CutRow`, as its user sees it: a row is written or read in a cycle.

    Parameters
    ----------
    mapping : Mapping
    rows : int
        Rows of the memory.

    Attributes
    ----------
    write, read : Out, 1
        Write a row; read one. Not both in a cycle.
    address : Out, range(rows)
    data : Out, `CutRow`
        Row to write.
    row : In, `CutRow`
        The row that was read last, one cycle later.
    """

    def __init__(self, mapping: Mapping, rows: int) -> None:
        row = CutRow(mapping)
        super().__init__(
            {**dict.fromkeys(("write", "read"), Out(1)), "address": Out(range(rows)), "data": Out(row), "row": In(row)}
        )


class PoolControl(data.StructLayout):
    """Control that travels from the sequencer to the pooling beside a word.

    Attributes
    ----------
    first, last : 1
        The sum is the first, the last of its pool.
    target : `activation_address`
        Address of the output in the activation memory.
    mask : a bit for each column
        Columns that have an output channel.
    inside : 1, only where windows of a pool go beyond the map
        The sum is of a pixel of the map; others do not count.
    more : a bit for each column and further part of a sum, only where a stage has sums in parts
        Those that have one, for such a stage.
    position : range(output_depth), only where a stage has sums in parts
        Address of the output in the output memory.
    """

    def __init__(self, mapping: Mapping) -> None:
        fields = {
            "first": unsigned(1),
            "last": unsigned(1),
            "target": activation_address(mapping),
            "mask": unsigned(mapping.columns),
        }
        if mapping.has_padded_pools:
            fields["inside"] = unsigned(1)
        if mapping.most_parts > 1:
            fields["more"] = unsigned((mapping.most_parts - 1) * mapping.columns)
            fields["position"] = Shape.cast(range(mapping.output_depth))
        super().__init__(fields)


class WordIssue(PlainSignature):
    """A word of the running stage, as the sequencer issues it: all in the cycle of `enable`.

    Attributes
    ----------
    enable : Out, 1
        A word is issued.
    address : Out, `activation_address`
        Of its activations.
    weight : Out, range(weight_words)
        Of its weights.
    bias : Out, range(groups)
        Of the biases of its sum.
    first, last : Out, 1
        First, last word of a sum.
    pool : Out, `PoolControl`
        Of the sum to which it belongs.
    within : Out, 1, only where a stage has sums of single lanes
        It is of such a stage.
    halved : Out, 1, only where a stage has sums of half the lanes
        It is of such a stage.
    residual : Out, 1, only where a stage has a residual
        Its weights are the identity, and not in the weight memory.
    """

    def __init__(self, mapping: Mapping) -> None:
        members = {
            "enable": Out(1),
            "address": Out(activation_address(mapping)),
            "weight": Out(range(mapping.weight_words)),
            "bias": Out(range(mapping.groups)),
            "first": Out(1),
            "last": Out(1),
            "pool": Out(PoolControl(mapping)),
        }
        flags = {"within": mapping.has_within, "halved": mapping.has_halves, "residual": mapping.has_residuals}
        super().__init__(members | {name: Out(1) for name, used in flags.items() if used})


class StageFunction(PlainSignature):
    """Function that stages of some networks apply to their sums besides ReLU; stays the same while a stage runs.

    Attributes
    ----------
    limit : Out, Q8.16, only where a stage has one
        Largest output.
    leaky, ... : Out, range(constants + 1), for each of `Mapping.units`
        Its choice for the stage, `ActivationUnit.choice`.
    merged : Out, 1, only where a stage has sums of two pixels of a pool
        The stage has; see `StageMapping.merged`.
    pooled_parts : Out, range(number of them), only where pools have sums of different parts
        Number of the stage's parts among `Mapping.pooled_parts`.
    divisor : Out, range(divisions + 1), only where a stage has an average pool
        Number of the division among `Mapping.averages`, counted from 1; 0 for none.
    """

    def __init__(self, mapping: Mapping) -> None:
        members: dict[str, Member] = {}
        if mapping.has_limits:
            members["limit"] = Out(ACTIVATION)
        members |= {unit.kind: Out(range(len(unit.constants) + 1)) for unit in mapping.units}
        if mapping.has_merged_pixels:
            members["merged"] = Out(1)
        if len(mapping.pooled_parts) > 1:
            members["pooled_parts"] = Out(range(len(mapping.pooled_parts)))
        if mapping.averages:
            members["divisor"] = Out(range(len(mapping.averages) + 1))
        super().__init__(members)
