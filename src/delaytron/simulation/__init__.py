"""Simulated runs: one replayed from arrays, or many drawn from seeds, and their results."""
