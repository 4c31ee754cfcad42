"""Figures in, verdict out, with no device: correctness, metrics, occupancy, floors, waivers, acknowledgements."""
