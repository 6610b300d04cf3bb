"""Experiments as data: a TOML file is expanded to runs, played on all cores, kept, and summed up."""
