"""Kernels checked without a GPU, each in the emulator; whether its checks detect injected defects."""
