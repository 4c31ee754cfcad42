"""Measures any Python callable as a case: its arguments, its calls on the device, the check of its outputs."""
