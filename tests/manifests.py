"""The manifest of a small file, as the JSON values that a test changes."""

import hashlib

MODEL = b"a model"
ENTRY = {"dtype": "int32", "shape": [1, 32]}


def content(**changes):
    values = {
        "format_version": 1,
        "name": "student",
        "created": "2026-01-02T03:04:05+00:00",
        "tfdistill_version": "0.1.0",
        "converter": "tensorflow 2.20.0",
        "model": {
            "file": "model.tflite",
            "sha256": hashlib.sha256(MODEL).hexdigest(),
            "size_bytes": len(MODEL),
        },
        "quantization": "float32",
        "signatures": {
            "len32": {
                "sequence_length": 32,
                "inputs": {"input_ids": ENTRY, "attention_mask": ENTRY},
                "outputs": {"logits": {"dtype": "float32", "shape": [1, 2]}},
            }
        },
        "softmax": False,
        "tokenizer": None,
        "task": None,
        "architecture": {
            "family": "bert",
            "num_layers": 2,
            "hidden_size": 8,
            "num_heads": 2,
            "intermediate_size": 16,
            "vocab_size": 100,
            "num_parameters": 1000,
        },
        "parity": {
            "num_examples": 3,
            "max_abs_error": 0.1,
            "mean_abs_error": 0.05,
            "sqnr_db": None,
            "argmax_agreement": 1.0,
        },
    }
    return {**values, **changes}
