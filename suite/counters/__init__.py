"""What a case does: its hardware counters through ncu."""
