"""Kernels: Python functions that are compiled on first use."""
