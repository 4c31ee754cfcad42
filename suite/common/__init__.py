"""What every room uses: errors, files, TOML, progress."""
