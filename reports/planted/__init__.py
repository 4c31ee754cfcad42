"""Planted truth: slowdowns and defects of known size, and what the tools make of them."""
