"""Whether a file answers as the model does, and the vectors that other programs are tested on."""
