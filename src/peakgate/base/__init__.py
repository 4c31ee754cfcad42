"""What every room speaks in: errors, files, processes, git, settings, options, saved records, what commands print.

And the sandbox in which a stranger's program runs.
"""
