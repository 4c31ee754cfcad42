"""Peakgate: measures the GPU kernels of a project, proves them right, and judges what got slower."""
