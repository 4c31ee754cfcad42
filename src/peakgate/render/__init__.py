"""The writers of a report: terminal, Markdown, CSV, JUnit, a page, and its pictures."""
