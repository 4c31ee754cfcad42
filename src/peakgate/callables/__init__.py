"""Any Python callable as a case: its arguments, its outputs, its captured launches, on the device."""
