"""Read saved run files, compare them and say what changed; never touches a GPU."""
