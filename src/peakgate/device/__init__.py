"""Two devices behind one interface: the GPU through CuPy, the CPU through the emulator."""

import os

from peakgate.base.files import CUPY_VARIABLE, cupy_cache

# Set here, since CuPy reads it when a module of this package imports it; child processes inherit it.
os.environ.setdefault(CUPY_VARIABLE, str(cupy_cache()))
