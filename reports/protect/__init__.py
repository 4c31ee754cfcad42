"""What people own, held against what a change does to it: floors are not lowered and saved runs not edited unseen."""
