import hashlib
import json
import shutil

import manifests
import pytest

from tfdistill import manifest

WORDS = [
    *("turn", "the", "light", "on", "off", "please", "play", "music", "set", "an"),
    *("alarm", "for", "seven", "what", "is", "weather"),
]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXTS = ["Turn the LIGHT on, please", "play music", "set an alarm for seven", "what is the weather"]


@pytest.fixture(scope="session")
def vocab():
    pieces = [f"##{a}{b}" for a in "abcdef" for b in "abcdefghijkl"]
    return [*SPECIAL, *dict.fromkeys(WORDS), ",", ".", "!", *pieces][:90]


def record(path):
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"file": path.name, "sha256": digest, "size_bytes": path.stat().st_size}


@pytest.fixture
def export_folder(tmp_path, tflite_files, vocab):
    """What `tfdistill export` writes, around fast.tflite."""
    folder = tmp_path / "student"
    folder.mkdir()
    shutil.copy(tflite_files / "fast.tflite", folder / "model.tflite")
    (folder / "vocab.txt").write_text("\n".join(vocab) + "\n")
    index = {word: i for i, word in enumerate(vocab)}
    examples = []
    for text in TEXTS:
        words = text.lower().replace(",", " ,").split()
        ids = [index["[CLS]"], *(index[word] for word in words), index["[SEP]"]]
        examples.append(
            {
                "text": text,
                "pair": None,
                "signature": "len8" if len(ids) <= 8 else "len16",
                "input_ids": ids,
                "token_type_ids": [0] * len(ids),
                "logits": [0.0, 0.0, 0.0],
            }
        )
    golden = {"format_version": 1, "examples": examples}
    (folder / "golden.json").write_text(json.dumps(golden))
    (folder / "labels.txt").write_text("light\nmusic\nalarm\n")
    inputs = ("input_ids", "attention_mask", "token_type_ids")
    signatures = {
        f"len{n}": {
            "sequence_length": n,
            "inputs": {name: {"dtype": "int32", "shape": [1, n]} for name in inputs},
            "outputs": {"logits": {"dtype": "float32", "shape": [1, 3]}},
        }
        for n in (8, 16)
    }
    vocab_file = {"vocab": record(folder / "vocab.txt"), "vocab_size": 90}
    content = manifests.content(
        model=record(folder / "model.tflite"),
        signatures=signatures,
        tokenizer={**vocab_file, "lower_case": True, "max_length": 16},
        task={"name": "toy", "kind": "classification", "labels": ["light", "music", "alarm"]},
        labels_file=record(folder / "labels.txt"),
        golden_file=record(folder / "golden.json"),
        parity=None,
    )
    manifest.write_manifest(manifest.Manifest.model_validate(content), folder)
    return folder
