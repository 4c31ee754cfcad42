"""What a change does to what judges it: floors, saved runs, cases' contracts, and the files of the judge itself."""
