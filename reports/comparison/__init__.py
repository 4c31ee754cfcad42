"""NEW against BASE: what sessions say of each case, how noisy they are, and the verdict; pure."""
