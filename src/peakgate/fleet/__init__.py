"""Runs the gate on every GPU of a cluster by Dask, and finds slow GPUs.

No other room imports this one.
"""
