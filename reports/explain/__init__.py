"""Says why a case changed: what differs in its machine code and in its hardware counters, the cause first."""
