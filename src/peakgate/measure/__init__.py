"""When sampling stops, and buffer contents: placement, random data, patterns. No device."""
