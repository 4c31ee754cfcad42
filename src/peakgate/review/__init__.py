"""Judges a change that is not trusted: what it weakens, and the gate, with a tool that it cannot edit.

Imported by nothing.
"""
