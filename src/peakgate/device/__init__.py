"""Two devices behind one interface: the GPU through CuPy, the CPU through the emulator."""

import os

from peakgate.base.files import CUPY_VARIABLE, cupy_cache

# CuPy reads it when it is imported, so before any module of this package imports it; processes inherit it.
os.environ.setdefault(CUPY_VARIABLE, str(cupy_cache()))
