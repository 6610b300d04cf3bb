"""The version of the package; it is part of the key of every stored run."""

__version__ = "0.1.0"
