"""Whether a file says what the model says, and the vectors that other programs are held to."""
