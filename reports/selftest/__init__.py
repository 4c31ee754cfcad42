"""Unchanged code against itself: how often the gate cries wolf on this runner, and what it can see here."""
