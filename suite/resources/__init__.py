"""Holds every kernel's registers, spills, shared memory and occupancy to a baseline, with no GPU."""
