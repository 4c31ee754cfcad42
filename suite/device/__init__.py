"""Two devices behind one interface: the GPU through CuPy, the CPU through the emulator."""
