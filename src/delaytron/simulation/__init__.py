"""Runs: one, replayed from arrays, or many, drawn from seeds, with what came out."""
