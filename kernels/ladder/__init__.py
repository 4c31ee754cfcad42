"""The tables and pictures that this repository's pages show of a run."""
