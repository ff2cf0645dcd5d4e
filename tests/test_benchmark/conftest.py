import hashlib
import json
import shutil

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
    content = path.read_bytes()
    return manifest.FileRecord(
        file=path.name, sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content)
    )


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
    card = manifest.Manifest(
        name="student",
        created="2026-01-01T00:00:00+00:00",
        tfdistill_version="0.1.0",
        converter="tensorflow",
        model=record(folder / "model.tflite"),
        quantization="float32",
        signatures={
            f"len{n}": manifest.SignatureRecord(
                sequence_length=n,
                inputs={i: manifest.TensorRecord(dtype="int32", shape=(1, n)) for i in inputs},
                outputs={"logits": manifest.TensorRecord(dtype="float32", shape=(1, 3))},
            )
            for n in (8, 16)
        },
        softmax=False,
        tokenizer=manifest.TokenizerRecord(
            vocab=record(folder / "vocab.txt"), vocab_size=90, lower_case=True, max_length=16
        ),
        task=manifest.TaskRecord(
            name="toy", kind="classification", labels=("light", "music", "alarm")
        ),
        labels_file=record(folder / "labels.txt"),
        golden_file=record(folder / "golden.json"),
        architecture=manifest.Architecture(
            family="bert",
            num_layers=1,
            hidden_size=32,
            num_heads=1,
            intermediate_size=128,
            vocab_size=90,
            num_parameters=11000,
        ),
        parity=None,
    )
    manifest.write_manifest(card, folder)
    return folder
