"""Charts as SVG. Pure."""
