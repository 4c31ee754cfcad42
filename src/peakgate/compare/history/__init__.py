"""Detects what got slower over many saved runs, and between which commits."""
