"""``inspect resources``: registers, spills and occupancy of every kernel against their baseline."""
