"""The project at hand: its settings, its kernel families, the cases they define."""
