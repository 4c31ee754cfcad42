"""``init --from``: a short family for a foreign .cu file."""
