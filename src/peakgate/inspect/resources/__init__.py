"""``inspect resources``: compares registers, spills and occupancy of every kernel with a baseline."""
