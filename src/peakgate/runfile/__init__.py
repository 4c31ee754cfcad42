"""The run file: its schema, and saved runs found by name, commit or driver, read, checked and put into a DataFrame."""
