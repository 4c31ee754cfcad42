"""Saved runs: read and checked, found by what names them, as records and as one tidy pandas frame."""
