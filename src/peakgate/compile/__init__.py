"""Compile .cu files with NVRTC, and read registers, spills and instructions from the machine code."""
