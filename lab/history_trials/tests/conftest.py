"""Makes the modules of the parent folder importable by their own names."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
