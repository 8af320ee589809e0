"""Blocks by name: each spec has RTL, a bench and a page of the same name."""

from .axi.axi_read import AxiReadSpec
from .axi.axi_registers import AxiRegistersSpec
from .axi.axi_write import AxiWriteSpec
from .block import Spec
from .cores.core import CoreSpec
from .cores.instantft.instantft import InstantftSpec
from .cores.zostream.zostream import ZostreamSpec
from .cores.zotrain.zotrain import ZotrainSpec
from .lora.adapter import AdapterSpec
from .lora.mseloss import MselossSpec
from .nf4.nf4_dequant import Nf4DequantSpec
from .nf4.nf4_quant import Nf4QuantSpec
from .nn.celoss import CelossSpec
from .nn.conv import ConvSpec
from .nn.depthwise import DepthwiseSpec
from .nn.fc import FcSpec
from .nn.mac import MacSpec
from .nn.softmax import SoftmaxSpec
from .rng.gaussian_array import GaussianArraySpec
from .rng.grng import GrngSpec
from .rng.pezo import PezoSpec
from .rng.pool import PoolSpec
from .rng.scale import ScaleSpec
from .rng.urng import UrngSpec
from .stream.array.array_path import ArrayPathSpec
from .stream.array.linear_sequencer import LinearSequencerSpec
from .stream.array.partial_sums import PartialSumsSpec
from .stream.array.stationary_load import StationaryLoadSpec
from .stream.array.tile_array import TileArraySpec
from .stream.machine.program_sequencer import ProgramSequencerSpec
from .stream.memory.activation_memory import ActivationMemorySpec
from .stream.memory.sample_loader import SampleLoaderSpec
from .stream.softmax.attention_sequencer import AttentionSequencerSpec
from .stream.softmax.attention_softmax import AttentionSoftmaxSpec
from .stream.softmax.context_scale import ContextScaleSpec
from .stream.values.activation_function import ActivationFunctionSpec
from .stream.values.elementwise import ElementwiseSpec
from .stream.values.layer_norm import LayerNormSpec
from .stream.values.norm_path import NormPathSpec
from .stream.values.pool_head import PoolHeadSpec
from .stream.values.requantize import RequantizeSpec
from .stream.values.rotary import RotarySpec
from .stream.values.value_path import ValuePathSpec
from .stream.weights.tensor_sequencer import TensorSequencerSpec
from .stream.weights.tile_dequant import TileDequantSpec
from .stream.weights.tile_stream import TileStreamSpec
from .stream.weights.tile_weights import TileWeightsSpec
from .stream.weights.word_offsets import WordOffsetsSpec
from .zo.coefficient import CoefficientSpec
from .zo.loss_difference import LossDifferenceSpec
from .zo.mse_difference import MseDifferenceSpec
from .zo.perturb import PerturbSpec
from .zo.sparse_add import SparseAddSpec
from .zo.tile import TileSpec
from .zo.weight_path import WeightPathSpec

BLOCKS: dict[str, type[Spec]] = {
    spec.name: spec
    for spec in (
        UrngSpec,
        ScaleSpec,
        PoolSpec,
        PerturbSpec,
        GrngSpec,
        GaussianArraySpec,
        PezoSpec,
        TileSpec,
        Nf4QuantSpec,
        Nf4DequantSpec,
        SparseAddSpec,
        WeightPathSpec,
        SoftmaxSpec,
        CelossSpec,
        LossDifferenceSpec,
        MselossSpec,
        MseDifferenceSpec,
        CoefficientSpec,
        MacSpec,
        FcSpec,
        ConvSpec,
        DepthwiseSpec,
        AdapterSpec,
        ActivationFunctionSpec,
        RequantizeSpec,
        ElementwiseSpec,
        ProgramSequencerSpec,
        TileDequantSpec,
        TileWeightsSpec,
        TensorSequencerSpec,
        TileStreamSpec,
        LayerNormSpec,
        NormPathSpec,
        AttentionSoftmaxSpec,
        ContextScaleSpec,
        TileArraySpec,
        ArrayPathSpec,
        LinearSequencerSpec,
        PartialSumsSpec,
        WordOffsetsSpec,
        StationaryLoadSpec,
        ActivationMemorySpec,
        SampleLoaderSpec,
        AttentionSequencerSpec,
        PoolHeadSpec,
        ValuePathSpec,
        RotarySpec,
        AxiReadSpec,
        AxiWriteSpec,
        AxiRegistersSpec,
        InstantftSpec,
        ZotrainSpec,
        ZostreamSpec,
    )
}
CORES: dict[str, type[CoreSpec]] = {name: spec for name, spec in BLOCKS.items() if issubclass(spec, CoreSpec)}
"""Cores among the blocks: a user instantiates them with a driver."""
