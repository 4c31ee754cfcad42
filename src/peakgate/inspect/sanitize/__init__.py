"""``inspect sanitize``: runs every kernel under compute-sanitizer."""
