"""Files: crash-safe writing and locks, compressed text, arrays without code."""
