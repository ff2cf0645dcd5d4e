"""From samples to summaries and conclusions: pure functions."""
