"""Every saved run of one GPU model in the order taken: what got slower lately, and between which commits."""
