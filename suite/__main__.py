"""``python -m peakgate`` is the command ``peakgate``."""

from __future__ import annotations

import sys

from peakgate.cli import command

if __name__ == "__main__":
    sys.exit(command())
