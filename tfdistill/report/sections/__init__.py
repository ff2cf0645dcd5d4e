"""The sections of a report, a module each. Pure."""
