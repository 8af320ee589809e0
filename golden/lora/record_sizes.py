"""Sizes that schedulers of adapter jobs know of a network and its engine."""

from typing import Protocol


class RecordSizes(Protocol):
    """Images of a sample, its record and its logits, in beats of 16 bytes.

    An NF4 record has its codes first, its scales behind them.
    """

    @property
    def labels(self) -> int:
        """Labels that a sample can have."""

    @property
    def sample_beats(self) -> int:
        """Beats of a sample."""

    @property
    def takes_sample(self) -> bool:
        """Whether a batch reads samples beside records."""

    @property
    def record_beats(self) -> int:
        """Beats of a record in NF4."""

    @property
    def code_beats(self) -> int:
        """Beats of a record's codes."""

    @property
    def scale_beats(self) -> int:
        """Beats of a record's scales."""

    @property
    def raw_beats(self) -> int:
        """Beats of a record in Q8.16."""

    @property
    def unread_beats(self) -> int:
        """First beats of a record's codes that a batch does not read."""

    @property
    def unread_raw_beats(self) -> int:
        """First beats of a record in Q8.16 that a batch does not read."""

    @property
    def loads_apart(self) -> bool:
        """Whether a batch reads scales as a stream of their own, beside codes."""

    @property
    def logit_beats(self) -> int:
        """Beats of a sample's logits."""
