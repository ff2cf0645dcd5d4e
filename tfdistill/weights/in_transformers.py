"""The answers of `transformers`: {"folder", "texts", "outputs"} on stdin -> outputs by name.

A program of its own, which imports nothing of tfdistill: PyTorch and TensorFlow in one process may
end it. `folder_checks` runs it where PyTorch is installed.
"""

from __future__ import annotations

import json
import sys

import transformers


def main() -> None:
    """Reads a folder as its config.json names it, and answers the texts, padded to the longest."""
    job = json.load(sys.stdin)
    config = transformers.AutoConfig.from_pretrained(job["folder"])
    architectures = config.architectures or []
    network = getattr(transformers, architectures[0]).from_pretrained(job["folder"]).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(job["folder"])
    inputs = tokenizer(
        job["texts"],
        truncation=True,
        padding=True,
        max_length=tokenizer.model_max_length,
        # A special token that somebody typed is ordinary text here, and on phones.
        split_special_tokens=True,
        return_tensors="pt",
    )
    outputs = network(**inputs)
    shown = {
        key: value.detach().tolist() for key, value in outputs.items() if key in job["outputs"]
    }
    print(json.dumps(shown))


if __name__ == "__main__":
    main()
