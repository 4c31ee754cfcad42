"""What a gate found, posted on the pull or merge request; imports the standard library alone (`render`)."""
