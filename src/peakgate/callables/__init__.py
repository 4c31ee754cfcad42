"""Measures any Python callable as a case: its arguments, its calls on the device, the check of its outputs."""

FIXTURE = "gpu_benchmark"

RANKS = "-ranks"
"""The end of the ids of cases that are measured in a process per GPU."""
