"""One run: the supervisor and the process that measures, pytest plug-in, journal, lock, and the run file it writes."""
