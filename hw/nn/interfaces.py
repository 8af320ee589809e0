"""Formats and interfaces of the forward engine.

Directions are the initiator's: the source of samples, the writer of activations.
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
"""Activation in Q8.16."""
PARAMETER = signed(Q4_12.width)
"""Weight, bias or adapter parameter in Q4.12."""
PRODUCT = NETWORK_FORMATS.product
"""Product of activation and parameter, 28 fraction bits."""
BEAT_BITS = 8 * BEAT
"""Bits of a beat of the memory bus."""
BEATS = stream.Signature(BEAT_BITS)
"""A stream of beats of the memory bus."""


def activation_address(mapping: Mapping) -> Shape:
    """Shape of an address in the activation memory, by the value."""
    return unsigned((mapping.activation_values - 1).bit_length())


def activations_per_write(mapping: Mapping) -> int:
    """Most values of a write to the activation memory."""
    return max(mapping.columns, mapping.row_replicas)


LOGIT = stream.Signature(data.StructLayout({"logit": ACTIVATION, "last": 1}))
"""Stream of logits in Q8.16, `last` on a sample's last."""


class ActivationWrite(wiring.Signature):
    """Write to the activation memory: adjacent values, or one value at the same column of several rows.

    Attributes
    ----------
    write : Out, a bit for each element
        Elements stored in this cycle.
    address : Out, `activation_address`
        Address of element 0. Element e goes to ``address + e``, with `replicate` to ``address + e - e * pitch``.
    values : Out, array of columns Q8.16
        Elements of a run.
    replicate : Out, 1
        All elements are `value`.
    value : Out, Q8.16
        Replicated value.
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
    """Samples into the forward engine, in order.

    Attributes
    ----------
    start : Out, 1
        One-cycle pulse: a sample begins; only while `room` is 1 and the preceding sample is written.
    room : In, 1
        A sample buffer is free.
    done : In, 1
        One-cycle pulse: the sample's last value is written; `start` may follow in the next cycle.
    beats : Out stream of beats
        Image of the sample, `Mapping.sample_beats` beats, taken after `start`.
    """

    def __init__(self) -> None:
        super().__init__({"start": Out(1), "room": In(1), "done": In(1), "beats": Out(BEATS)})


class StageOutputs(wiring.Signature):
    """Stage outputs for a reader.

    Address `StageMapping.output` + group * cells + cell, column of the channel within its group.

    Parameters
    ----------
    mapping : Mapping
    reads : int
        Values read at once, 1 or 2.

    Attributes
    ----------
    filled : Out, a bit for each stage, and of a stage for each of `Mapping.sides`
        One-cycle pulse: outputs are complete, readable two cycles later. With two perturbation signs only the last
        stage of a pass.
    full : In, the same bits
        Outputs are unread, from the cycle after `filled`: the stage waits before the next sample. Constant 0 for a
        stage without a reader.
    enable : In, 1
        Read.
    side : In, 1, only with two sides
        Perturbation sign to read.
    address : In, range(output_depth)
    column : In, log2(columns) bits
    value : Out, Q8.16
        Value at `address` and `column`, a cycle after `enable`, held until the next read.
    second_address, second_column, second_value
        Only with two reads: second value, in another column at the same address, or at an adjacent address in the same
        column.
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
    """Offsets that the forward engine adds to parameters.

    A weight word has equal parts of adjacent parameters; parameter j of a part takes the part's offset j mod n.

    Parameters
    ----------
    mapping : Mapping
    numbers, parts : int
        Offsets of a part, n, and parts of a word, a power of two.
    latency : int
        Cycles from `weight` to `numbers`, 1 or 3.

    Attributes
    ----------
    weight : Out, range(weight_words)
        Weight word.
    side : Out, 1
        Perturbation sign of the word's offsets, one cycle before `numbers`.
    numbers : In, array of parts * n Q4.12
        Offsets of the word, part by part, `latency` cycles after `weight`.
    bias : Out, range(groups)
        Group of biases.
    bias_side : Out, 1
        Perturbation sign of the biases.
    biases : In, array of columns Q4.12
        Offsets of the biases, one cycle later.
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
    """Stages and inputs of passes, as set by the controller of the forward engine.

    All but `restart` are constant while samples of a kind are computed.

    Parameters
    ----------
    mapping : Mapping

    Attributes
    ----------
    first, last : Out, range(stages)
        First and last stage of a pass.
    cut : Out, range(stages)
        First stage after the cut, not 0; outputs before it are recorded and restored.
    record : Out, 1
        Record outputs of the last stage. Rises before the first such pass.
    restore : Out, 1
        Passes begin with recorded outputs, in order of recording, instead of samples.
    restart : Out, 1
        One-cycle pulse before `hold` falls: restore from the first recorded pass.
    """

    def __init__(self, mapping: Mapping) -> None:
        stage = range(len(mapping.stages))
        flags = ("record", "restore", "restart")
        super().__init__({**dict.fromkeys(("first", "last", "cut"), Out(stage)), **{name: Out(1) for name in flags}})


class CutRow(data.StructLayout):
    """Row of recorded outputs before a cut.

    Attributes
    ----------
    mask : a bit for each column
        Columns with an output.
    address : `activation_address`
        Address of the first column's output in the activation memory.
    values : array of columns Q8.16
    """

    def __init__(self, mapping: Mapping) -> None:
        values = data.ArrayLayout(ACTIVATION, mapping.columns)
        super().__init__({"mask": mapping.columns, "address": activation_address(mapping), "values": values})


class CutRows(wiring.Signature):
    """Port of a memory of `CutRow`: a write or a read a cycle.

    Parameters
    ----------
    mapping : Mapping
    rows : int
        Rows of the memory.

    Attributes
    ----------
    write, read : Out, 1
        Write or read a row, not both in a cycle.
    address : Out, range(rows)
    data : Out, `CutRow`
        Row to write.
    row : In, `CutRow`
        Row of the last read, one cycle later.
    """

    def __init__(self, mapping: Mapping, rows: int) -> None:
        row = CutRow(mapping)
        super().__init__(
            {**dict.fromkeys(("write", "read"), Out(1)), "address": Out(range(rows)), "data": Out(row), "row": In(row)}
        )


class PoolControl(data.StructLayout):
    """Control of a word for the pooling, in the pipeline beside the word.

    Attributes
    ----------
    first, last : 1
        First, last sum of a pool.
    target : `activation_address`
        Output address in the activation memory.
    mask : a bit for each column
        Columns with an output channel.
    inside : 1, only where windows of a pool go beyond the map
        The pixel is in the map; others are ignored.
    more : a bit for each column and further part of a sum, only where a stage has sums in parts
        Columns of further parts with an output channel.
    position : range(output_depth), only where a stage has sums in parts
        Output address in the output memory.
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
    """Word of the running stage; all fields are valid with `enable`.

    Attributes
    ----------
    enable : Out, 1
        A word is issued.
    address : Out, `activation_address`
        Address of the activations.
    weight : Out, range(weight_words)
        Weight word.
    bias : Out, range(groups)
        Group of biases of the sum.
    first, last : Out, 1
        First, last word of a sum.
    pool : Out, `PoolControl`
        Control of the sum.
    within : Out, 1, only where a stage has sums of single lanes
        Sums are of single lanes.
    halved : Out, 1, only where a stage has sums of half the lanes
        Sums are of half the lanes.
    residual : Out, 1, only where a stage has a residual
        Residual word: identity weights, which are not in the weight memory.
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
    """Optional functions of a stage's sums; constant while a stage runs.

    Attributes
    ----------
    limit : Out, Q8.16, only where a stage has one
        Upper clip.
    leaky, ... : Out, range(constants + 1), for each of `Mapping.units`
        `ActivationUnit.choice` of the stage.
    merged : Out, 1, only where a stage has words of two pixels of a pool
        `StageMapping.merged`.
    pooled_parts : Out, range(number of them), only where pools have sums of different parts
        Index of the stage's parts in `Mapping.pooled_parts`.
    divisor : Out, range(divisions + 1), only where a stage has an average pool
        Index from 1 in `Mapping.averages`; 0 without a division.
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
