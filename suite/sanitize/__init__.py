"""Runs every kernel under NVIDIA's compute-sanitizer and says which one it caught at what."""
