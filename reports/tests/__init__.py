"""Tests of reports, on synthetic run files."""
