"""The targets of an export: `to_tflite` and its copies for other programs, one module each."""
