"""The project whose one kernel is a copy of known length: reports/planted/project."""

from __future__ import annotations

from pathlib import Path

from peakgate.project.catalogue import module_at

PROJECT = Path(__file__).with_name("project")
steps = module_at(PROJECT / "kernels" / "steps" / "family.py")
