"""Rules of `mac` within its multipliers: as across the lanes, at a multiplier's latency."""

from __future__ import annotations

from dataclasses import replace

from . import formal_mac

SPEC = replace(formal_mac.SPEC, mode="within")
CUT, check = formal_mac.CUT, formal_mac.check
