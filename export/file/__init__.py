"""A TFLite file: its bytes and what lies beside it, what it holds, how LiteRT runs it."""
