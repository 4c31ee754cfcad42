"""Saved runs: found by name, commit or driver, read and checked as records, given as one pandas frame."""
