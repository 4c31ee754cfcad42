"""Finds the commit that made a case slower."""
