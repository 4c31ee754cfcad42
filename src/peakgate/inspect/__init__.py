"""Checks that need no timing: ``check`` in the emulator, and ``inspect``: mutants, resources, sanitize."""
