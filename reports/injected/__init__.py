"""Injected slowdowns of known size, and how often the rule of ``ab`` detects them."""
