"""Kernels of CuTe in the emulator."""
