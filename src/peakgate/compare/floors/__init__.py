"""Proposes floors from saved runs, with their margins, and keeps runs as references."""
