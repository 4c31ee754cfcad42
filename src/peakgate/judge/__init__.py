"""Judges figures, without a device: correctness, metrics, occupancy, floors, waivers, acknowledgements."""
