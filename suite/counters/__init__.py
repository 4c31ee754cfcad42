"""What a case is made of and what it does: machine code of one case, and its hardware counters through ncu."""
