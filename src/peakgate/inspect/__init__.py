"""What needs no timing: ``check`` in the emulator, and ``inspect``: mutants, resources and compute-sanitizer."""
