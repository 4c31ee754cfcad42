"""From samples to a verdict: correctness, metrics, peaks, occupancy, floors. Pure: no device."""
