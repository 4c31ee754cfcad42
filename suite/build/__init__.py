"""From a .cu file to machine code."""
