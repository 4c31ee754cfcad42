"""What needs no timing: ``check`` and ``mutants`` in the emulator, ``resources``, ``sanitize``."""
