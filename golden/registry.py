"""The blocks, by name: whatever has a spec here has RTL, a bench and a page of the same name."""

from .block import Spec
from .grng import GrngSpec
from .perturb import PerturbSpec
from .pezo import PezoSpec
from .pool import PoolSpec
from .scale import ScaleSpec
from .tile import TileSpec
from .urng import UrngSpec

BLOCKS: dict[str, type[Spec]] = {
    spec.name: spec for spec in (UrngSpec, ScaleSpec, PoolSpec, PerturbSpec, GrngSpec, PezoSpec, TileSpec)
}
