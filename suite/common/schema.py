"""What the writer and the readers of a run file agree on."""

from __future__ import annotations

SCHEMA = 1
"""``peakgate_schema`` of a run file; a change of meaning raises it."""

EMULATOR_SLUG = "cpu-emulator"
"""``machine_info.gpu.slug`` of runs whose times are emulated."""
