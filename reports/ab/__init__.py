"""Two commits on one GPU, measured in turns, fresh process by fresh process, and decided on their pairs."""
