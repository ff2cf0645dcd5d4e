"""From samples to what may be said about them: pure functions."""
