"""One run of a project on one device: the pytest plug-in, the session, the run file."""
