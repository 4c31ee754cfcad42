"""Kernels of other repositories in the emulator, by a rule of selection that was fixed before the first of them ran."""
