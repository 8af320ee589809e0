"""The blocks, by name: whatever has a spec here has RTL, a bench and a page of the same name."""

from .block import Spec
from .celoss import CelossSpec
from .grng import GrngSpec
from .nf4_dequant import Nf4DequantSpec
from .nf4_quant import Nf4QuantSpec
from .perturb import PerturbSpec
from .pezo import PezoSpec
from .pool import PoolSpec
from .scale import ScaleSpec
from .softmax import SoftmaxSpec
from .tile import TileSpec
from .urng import UrngSpec

BLOCKS: dict[str, type[Spec]] = {
    spec.name: spec
    for spec in (
        UrngSpec,
        ScaleSpec,
        PoolSpec,
        PerturbSpec,
        GrngSpec,
        PezoSpec,
        TileSpec,
        Nf4QuantSpec,
        Nf4DequantSpec,
        SoftmaxSpec,
        CelossSpec,
    )
}
