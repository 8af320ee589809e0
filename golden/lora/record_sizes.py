"""Sizes of a network's images, for the schedulers of adapter jobs."""

from typing import Protocol


class RecordSizes(Protocol):
    """Sizes of a sample, its record and its logits, in beats of 16 bytes. An NF4 record has codes, then scales."""

    @property
    def labels(self) -> int:
        """Number of labels."""

    @property
    def sample_beats(self) -> int:
        """Beats of a sample."""

    @property
    def takes_sample(self) -> bool:
        """Whether a batch reads samples in addition to records."""

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
        """Leading beats of a record's codes that a batch skips."""

    @property
    def unread_raw_beats(self) -> int:
        """Leading beats of a Q8.16 record that a batch skips."""

    @property
    def loads_apart(self) -> bool:
        """Whether scales and codes are read as parallel streams."""

    @property
    def logit_beats(self) -> int:
        """Beats of a sample's logits."""
