"""One case on an opened device: its arguments in place, proven right, sampled, its timed launches compared, judged."""
