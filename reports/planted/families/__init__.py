"""Families of planted kernels, found through PEAKGATE_FAMILIES."""
