"""Judges untrusted changes: ``protect`` lists what they weaken, ``gate`` judges them with a tool they cannot edit.

No other room imports this one.
"""
