"""The faces of one comparison: terminal, Markdown, CSV and JSON; none of them decides anything."""
