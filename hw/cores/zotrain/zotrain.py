"""RTL of `zotrain`: the shell, and the zeroth-order trainer inside."""

from collections.abc import Sequence

from amaranth.hdl import Array, Value
from amaranth.lib import wiring

from ....golden.cores.zeroth_order.registers import Error
from ....golden.cores.zotrain.zotrain import ZotrainSpec
from ....golden.zo.coefficient import LARGEST_BATCH
from ..shell import Check
from ..zeroth_order.sequencer import ZerothOrderSequencer
from ..zeroth_order.shelled_zeroth_order import ShelledZerothOrder
from .array_passes import ArrayPasses


class Zotrain(ShelledZerothOrder):
    """The core, see `ShelledCore`; where a fault interrupts training, the deltas must be loaded again."""

    passes = ArrayPasses

    def __init__(self, spec: ZotrainSpec) -> None:
        super().__init__(spec, spec.layout.row_beats)

    def trainer(self) -> ZerothOrderSequencer:
        """Build the trainer inside."""
        return ZerothOrderSequencer(self.spec, ArrayPasses(self.spec))

    def cut_checks(self, train: Value, settings: wiring.PureInterface) -> Sequence[Check]:
        """List the reasons to refuse the cut of a training: of values out of range the first one counts."""
        spec, cut, batch = self.spec, settings.cut, settings.batch
        cuts = spec.cuts
        most = Array(spec.kept_samples(stage) if stage else LARGEST_BATCH for stage in range(cuts))
        samples, stage = batch[: LARGEST_BATCH.bit_length()], cut[: (cuts - 1).bit_length()]
        return [
            Check(train & (cut >= cuts), Error.BAD_CUT, cut),
            Check(train & (samples > most[stage]), Error.BAD_BATCH, batch),
        ]

    def uncut(self, settings: wiring.PureInterface) -> Value:
        """Whether a second part has perturbations that there is not."""
        return (settings.p2 != 1) & (settings.cut == 0)
