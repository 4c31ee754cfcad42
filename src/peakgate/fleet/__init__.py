"""The gate on every GPU of a cluster, placed by Dask, and which GPUs are slow.

Imported by nothing.
"""
