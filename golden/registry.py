"""Blocks by name: each spec here has RTL, a bench and a page of the same name."""

from .axi.axi_read import AxiReadSpec
from .axi.axi_registers import AxiRegistersSpec
from .axi.axi_write import AxiWriteSpec
from .block import Spec
from .cores.core import CoreSpec
from .cores.instantft.instantft import InstantftSpec
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
from .stream.activation_function import ActivationFunctionSpec
from .stream.attention_softmax import AttentionSoftmaxSpec
from .stream.context_scale import ContextScaleSpec
from .stream.elementwise import ElementwiseSpec
from .stream.layer_norm import LayerNormSpec
from .stream.partial_sums import PartialSumsSpec
from .stream.requantize import RequantizeSpec
from .stream.tile_array import TileArraySpec
from .stream.tile_dequant import TileDequantSpec
from .stream.tile_weights import TileWeightsSpec
from .stream.word_offsets import WordOffsetsSpec
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
        TileDequantSpec,
        TileWeightsSpec,
        LayerNormSpec,
        AttentionSoftmaxSpec,
        ContextScaleSpec,
        TileArraySpec,
        PartialSumsSpec,
        WordOffsetsSpec,
        AxiReadSpec,
        AxiWriteSpec,
        AxiRegistersSpec,
        InstantftSpec,
        ZotrainSpec,
    )
}
CORES: dict[str, type[CoreSpec]] = {name: spec for name, spec in BLOCKS.items() if issubclass(spec, CoreSpec)}
"""Cores among them: a user instantiates them with a driver."""
