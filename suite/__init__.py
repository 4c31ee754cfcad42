"""Measure every CUDA kernel of this repository, prove it right and judge one run."""
