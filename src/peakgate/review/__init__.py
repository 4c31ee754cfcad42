"""Judges a change that is not trusted: what it weakens, and the gate where it reaches nothing of its judge.

Imported by nothing.
"""
