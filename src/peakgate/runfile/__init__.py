"""The run file: its schema; saved runs found by name, commit or driver, read and checked, given as one pandas frame."""
