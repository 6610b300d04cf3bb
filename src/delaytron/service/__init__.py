"""The decision service: decisions over HTTP now, feedback whenever it comes."""
