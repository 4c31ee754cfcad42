"""One case on an opened device: prepared, proven right, sampled, its timed launches compared, judged."""
