"""When sampling stops and what buffers hold: sizes, placement, drawn data and patterns. No device."""
