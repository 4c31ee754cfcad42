"""From a .cu file to machine code by NVRTC, and what can be read from that: registers, spills, instructions."""
