"""Finds the commit that changed a case's time."""
