"""The ladder: what each stage changes and what a saved run measured of it, in the tables and pictures of kernels/."""
