"""What people look at: one run, and all runs of a project."""
