"""The version of tfdistill, its only source (setup.py reads this file)."""

__version__ = "0.1.0"
