"""What is written: `to_tflite` and its copies for other programs, one module each."""
