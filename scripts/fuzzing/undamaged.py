"""The files that are damaged: one of every kind, made by the commands that users have."""

from __future__ import annotations

import csv
import json
import pathlib
import random
from collections.abc import Callable

import numpy as np
import pyarrow.parquet
import safetensors.numpy

from tfdistill.io import files

WORDS = ("good", "bad", "a", "film", "very", "dull", "bright", "the", "plot", "is", "was", "not")
READY = "ready"  # a file that marks a finished folder
_STEP = {"epochs": 1, "batch_size": 16, "learning_rate": 1e-3}
MEASURE = ("--warmup", "0", "--runs", "3", "--min-seconds", "0", "--repetitions", "1")


def make(folder: pathlib.Path, tfdistill: Callable[..., None], *, fast: bool) -> None:
    """Fills a folder with files, unless that is done.

    Args:
      folder: The folder; the working directory of `tfdistill`.
      tfdistill: Runs a command; raises where it fails.
      fast: Only what is made without training.
    """
    if not (folder / "text" / READY).is_file():
        _texts(folder)
        tfdistill("data", "vocab", "text/corpus.txt", "--size", "90", "--out", "text/vocab.txt")
        embedder(folder / "sentences", folder / "text" / "vocab.txt")
        tfdistill(
            *("export", "sentences", "--out", "near", "--lengths", "16", "--quantize", "float32"),
            "--overwrite",
        )
        tfdistill(*INDEX, "--model", "near", "--overwrite")
        (folder / "text" / READY).touch()
    if fast or (folder / READY).is_file():
        return
    more = ("--resume",) if (folder / "run").is_dir() else ()
    tfdistill("run", "text/toy.yaml", "--out", "run", *more)
    tfdistill(
        *("data", "prepare", "text/corpus.txt", "--vocab", "text/vocab.txt", "--overwrite"),
        *("--next-sentence", "--max-length", "16", "--out", "shards"),
    )
    tfdistill(*PRETRAIN, "--out", "pretrained", "--overwrite")
    tfdistill(
        *("export", "run", "--out", "exported", "--lengths", "16", "--quantize", "float32"),
        *("--android", "assets", "--overwrite"),
    )
    tfdistill("benchmark", "exported", "run", *MEASURE, "--out", "both.json", "--overwrite")
    tfdistill(*AUGMENT, "--out", "augmented", "--overwrite")
    (folder / READY).touch()


PRETRAIN = (
    *("pretrain", "bert_tiny", "--corpus", "shards", "--steps", "4", "--batch-size", "4"),
    *("--shape", "num_layers=1", "--shape", "hidden_size=8", "--shape", "intermediate_size=8"),
    *("--next-sentence", "--set", "evaluations=2"),
)
AUGMENT = (
    *("data", "augment", "--task", "own", "--data-dir", "text", "--text-column", "text"),
    *("--label-column", "label", "--masked-lm", "pretrained/model/hf", "--set", "copies=1"),
)
INDEX = ("index", "pairs/train.csv", "--text-column", "one", "--answer-column", "near")
OWN = ("--task", "own", "--data-dir", "text", "--text-column", "text", "--label-column", "label")
PAIRS = (
    *("--kind", "embedding", "--task", "own", "--data-dir", "pairs"),
    *("--text-column", "one", "--pair-column", "two", "--label-column", "near"),
)


def keep_scratch() -> None:
    """Lets a run end with the checkpoints, caches and weights that one has which was killed."""
    from tfdistill.run import deliver
    from tfdistill.training import checkpoints

    checkpoints.remove = deliver.drop_scratch = lambda folder: None


def _texts(folder: pathlib.Path) -> None:
    draw = random.Random(5)
    text = folder / "text"
    text.mkdir(parents=True, exist_ok=True)

    def sentence() -> str:
        return " ".join(draw.choices(WORDS, k=draw.randrange(3, 9)))

    for split in ("train", "dev"):
        rows = [(sentence(), draw.choice(("no", "yes"))) for _ in range(40)]
        lines = ["text,label", *(f"{line},{label}" for line, label in rows)]
        (text / f"{split}.csv").write_text("\n".join(lines) + "\n")
    lines_folder, questions, tags = (folder / name for name in ("lines", "questions", "tags"))
    for other in (lines_folder, questions, tags):
        other.mkdir(exist_ok=True)
    for split in ("train", "dev"):
        (lines_folder / f"{split}.jsonl").write_text(
            "\n".join(json.dumps({"text": line, "label": label}) for line, label in rows)
        )
        tagged = ["\n".join(f"{word} {'B-A' if word == 'film' else 'O'}" for word in line.split())
                  for line, _ in rows]  # fmt: skip
        (tags / f"{split}.txt").write_text("\n\n".join(tagged) + "\n")
        entries = [
            {
                "context": f"{line} film",
                "qas": [
                    {
                        "id": f"{split}{number}",
                        "question": sentence(),
                        "answers": [{"text": line.split()[0], "answer_start": 0}],
                    }
                ],
            }
            for number, (line, _) in enumerate(rows[:8])
        ]
        content = {"version": "1.1", "data": [{"title": "t", "paragraphs": entries}]}
        (questions / f"{split}-v1.1.json").write_text(json.dumps(content))
    documents = ["\n".join(f"{sentence()} ." for _ in range(4)) for _ in range(60)]
    (text / "corpus.txt").write_text("\n\n".join(documents) + "\n")
    files.atomic_write_json(text / "sweep.json", _sweep())
    _answers(folder / "given", draw)
    _pairs(folder / "pairs", sentence)
    (text / "toy.yaml").write_text(json.dumps(_recipe(), indent=1))


def _answers(folder: pathlib.Path, draw: random.Random) -> None:
    """A teacher's answers to all texts, in every format that can be read."""
    folder.mkdir(exist_ok=True)
    text_set: dict[str, None] = {}
    for split in ("train", "dev"):
        with open(folder.parent / "text" / f"{split}.csv", newline="") as file:
            text_set |= dict.fromkeys(row["text"] for row in csv.DictReader(file))
    texts = list(text_set)
    logits = [{"no": draw.uniform(-2, 2), "yes": draw.uniform(-2, 2)} for _ in texts]
    nested = [{"text": text, "logits": logits[i]} for i, text in enumerate(texts)]
    rows = [
        {"text": text, "logits.no": logits[i]["no"], "logits.yes": logits[i]["yes"]}
        for i, text in enumerate(texts)
    ]
    (folder / "answers.jsonl").write_text("\n".join(map(json.dumps, nested)) + "\n")
    with open(folder / "answers.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(nested), folder / "answers.parquet")


def _pairs(folder: pathlib.Path, sentence: Callable[[], str]) -> None:
    """Pairs of texts and how similar they are."""
    folder.mkdir(exist_ok=True)
    for split in ("train", "dev"):
        lines = ["one,two,near", *(f"{sentence()},{sentence()},{n % 5}" for n in range(20))]
        (folder / f"{split}.csv").write_text("\n".join(lines) + "\n")


def embedder(folder: pathlib.Path, vocab: pathlib.Path) -> None:
    """Writes a sentence encoder as sentence-transformers does: one layer, mean pooling."""
    words = vocab.read_text().splitlines()
    width, draw = 8, np.random.default_rng(5)
    matrix = {"query": (8, 8), "key": (8, 8), "value": (8, 8)}
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(words), width),
        "embeddings.position_embeddings.weight": (32, width),
        "embeddings.token_type_embeddings.weight": (2, width),
    }
    layer = "encoder.layer.0"
    dense = {f"{layer}.attention.self.{name}": shape for name, shape in matrix.items()}
    dense |= {f"{layer}.attention.output.dense": (8, 8), f"{layer}.intermediate.dense": (16, 8)}
    dense[f"{layer}.output.dense"] = (8, 16)
    for name, shape in dense.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    for name in ("embeddings", f"{layer}.attention.output", f"{layer}.output"):
        shapes |= {f"{name}.LayerNorm.weight": (width,), f"{name}.LayerNorm.bias": (width,)}
    tensors = {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    config = {
        "model_type": "bert", "vocab_size": len(words), "hidden_size": width,
        "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
        "hidden_act": "gelu", "max_position_embeddings": 32, "type_vocab_size": 2,
        "layer_norm_eps": 1e-12, "pad_token_id": 0,
    }  # fmt: skip
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    pooling = {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")
    for name, value in {
        "config.json": config,
        "1_Pooling/config.json": pooling,
        "sentence_bert_config.json": {"max_seq_length": 16, "do_lower_case": False},
        "tokenizer_config.json": {"do_lower_case": True},
        "modules.json": [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (path, kind) in enumerate(modules)
        ],
    }.items():
        (folder / name).write_text(json.dumps(value, indent=1))
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")


def _recipe() -> dict:
    sizes = {"num_layers": 1, "hidden_size": 8, "intermediate_size": 8, "num_heads": 2}
    return {
        "name": "toy",
        "data": {
            "task": "own",
            "dir": "text",
            "text_column": "text",
            "label_column": "label",
            "max_length": 16,
            "vocab": "text/vocab.txt",
        },
        "teacher": {
            "source": "preset:bert_tiny",
            "finetune": {**_STEP},
            "allow_weak": True,
            "export": False,
        },
        "student": {"preset": "bert_tiny", **sizes, "allow_weak": True},
        "stages": {
            "logits": {"kind": "logits", **_STEP},
            "patient": {"kind": "prediction", **_STEP},
        },
        "variants": {"full": {"stages": ["logits", "patient"]}},
        "export": {"lengths": [16]},
        "benchmark": {"warmup": 0, "runs": 3, "min_seconds": 0, "repetitions": 1},
    }


def _sweep() -> dict:
    row = {
        "name": "float32",
        "verdict": "good",
        "size_bytes": 100,
        "zipped_bytes": 90,
        "p50_ms": {"16": 1.5},
        "model_metrics": {"accuracy": 0.5},
        "file_metrics": {"accuracy": 0.5},
        "primary_metric": "accuracy",
        "argmax_agreement": 1.0,
        "sqnr_db": 100.0,
        "num_examples": 4,
    }
    return {
        "format_version": 1,
        "lengths": [16],
        "request": {"metric": "accuracy"},
        "rows": [row, {**row, "name": "float16", "verdict": "failed", "why": "x"}],
    }
