"""TFLite files without TensorFlow: read as plain values, edited, and what XNNPACK runs of them."""
