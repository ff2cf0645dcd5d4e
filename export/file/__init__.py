"""A TFLite file and the files next to it: what it holds, and how LiteRT runs it."""
