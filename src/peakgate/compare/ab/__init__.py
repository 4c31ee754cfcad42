"""Measures two commits in turns on one GPU, decides which case got slower, and explains why."""
