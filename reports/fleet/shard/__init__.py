"""A tier measured once, spread over equal GPUs: who measures what, and what is said of the whole."""
