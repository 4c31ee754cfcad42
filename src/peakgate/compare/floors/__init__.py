"""Proposes floors from saved runs with their margins, or keeps the runs as references."""
