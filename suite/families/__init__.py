"""One file per folder of kernels/: stages, sizes, blocks, work with its derivation, reference and tolerance."""
