"""Two commits on one GPU, measured alternately, fresh process by fresh process, and decided on their pairs."""
