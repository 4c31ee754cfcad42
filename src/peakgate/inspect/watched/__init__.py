"""``check`` of kernels that benchmark tests launch."""
