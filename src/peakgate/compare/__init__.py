"""Compares saved runs (``compare``, ``selftest``); subpackages for ``ab``, ``history``, ``floors`` and ``bisect``."""
