"""Files of other benchmark tools, read into one form."""
