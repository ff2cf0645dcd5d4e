"""Results against one another: what changed, whether it may pass, and how it went over time."""
