"""The outputs of one comparison: terminal, Markdown, HTML, CSV, JSON and JUnit; none of them decides anything."""
