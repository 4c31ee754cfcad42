"""The gate on every GPU of a machine or cluster, and which of them are slow."""
