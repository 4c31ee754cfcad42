"""``inspect sanitize``: every kernel under compute-sanitizer."""
