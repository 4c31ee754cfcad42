"""Edits to pipelines of asynchronous copies and products, and whether the emulator notices them."""
