"""What a gate found, posted on the pull or merge request."""
