"""Shared by all rooms: errors, files, processes, git, settings, options, saved records, reports, the sandbox."""
