"""Text in, batches out: tasks, tokenization, length-bucketed batches, corpora, synthetic data.

Nothing is imported here, so that reading a task or a vocabulary costs no TensorFlow import.
"""
