"""How often the fleet's rule names a healthy GPU, and what it detects: fleets simulated from measured sessions."""
