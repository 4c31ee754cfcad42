"""What every room uses: errors, files, the reader of saved files, progress."""
