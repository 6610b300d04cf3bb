"""Experiments: a TOML file is expanded to runs, which are played in parallel, stored, compared and reported."""
