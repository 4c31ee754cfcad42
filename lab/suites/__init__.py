"""Labelled suites of other repositories, judged by the emulator: README.md has the claim and the rule."""
