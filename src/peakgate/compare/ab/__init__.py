"""Measures two commits alternately on one GPU, decides which cases got slower, and explains why."""
