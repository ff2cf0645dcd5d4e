"""The model that is exported: what it computes in a file, what it is asked, how it answers."""
