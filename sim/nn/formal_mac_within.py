"""Rules of `mac` summing within its multipliers: those of `formal_mac`, at a multiplier's latency."""

from __future__ import annotations

from dataclasses import replace

from . import formal_mac

SPEC = replace(formal_mac.SPEC, mode="within")
CUT, check = formal_mac.CUT, formal_mac.check
