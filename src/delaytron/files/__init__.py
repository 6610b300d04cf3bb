"""Files: written whole or not at all, read compressed or not, line by line."""
