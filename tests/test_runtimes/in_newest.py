"""The newest transformers and sentence-transformers: makes folders, and reads those that we wrote.

Run by the Python of .runtimes/newest. Each line of stdin is a job: {"make": FOLDER}, or {"read":
FOLDER, "texts": FILE}, which is answered with ids and answers. Words and weights are random and
seeded; expected.json of a folder holds what the library answers.
"""

import json
import pathlib
import sys

import torch
import transformers
from sentence_transformers import CrossEncoder, SentenceTransformer, models
from tokenizers import BertWordPieceTokenizer

WORDS = "the a it is good bad film who was first café naive 東 京 q".split()
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "!", "?", "[", "]", "##s", "##ing"]
TOKENS += [*"bcdefghijklmnoprstuvwxyz0123456789", *("##" + c for c in "abcdefghijklmnopqrstuvwxyz")]
TOKENS = list(dict.fromkeys(TOKENS))
TEXTS = (
    *("", "The first FILM was good!", "café naïve 東京?", "the " * 40, "[E11] good [E12] bad"),
    *("who is it ?", "a\u200bb\u0000c zzz", "goods doing thing"),
)
SIZES = {"vocab_size": len(TOKENS), "max_position_embeddings": 32, "num_labels": 3}
BERT = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
}
DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}


def tokenizer(folder, *added):
    """BERT's tokenizer as the library reads it from tokenizer.json, perhaps with further tokens."""
    folder.mkdir(parents=True)
    words = {token: index for index, token in enumerate(TOKENS)}
    BertWordPieceTokenizer(words, lowercase=True).save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 32}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    read = transformers.AutoTokenizer.from_pretrained(folder)
    read.add_special_tokens({"additional_special_tokens": list(added)})
    return read


def randomised(model):
    torch.manual_seed(1)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.randn_like(value) * 0.2)
    return model.eval()


def answer(model, read, text):
    batch = read(text, truncation=True, return_tensors="pt")
    with torch.no_grad():
        return model(**batch)[0][0].tolist()


def expect(folder, read, answers):
    ids = [read(text, truncation=True)["input_ids"] for text in TEXTS]
    expected = {"texts": TEXTS, "ids": ids, "answers": answers}
    (folder / "expected.json").write_text(json.dumps(expected))


def make(out):
    """Saves classifiers of three families, sentence encoders, a cross-encoder, added tokens."""
    plain, marked = tokenizer(out / "plain"), tokenizer(out / "marked", "[E11]", "[E12]")
    families = {
        "bert": transformers.BertConfig(**SIZES, **BERT),
        "distilbert": transformers.DistilBertConfig(**SIZES, **DISTIL),
        "electra": transformers.ElectraConfig(**SIZES, **BERT, embedding_size=8),
    }
    auto = transformers.AutoModelForSequenceClassification
    for name, config in families.items():
        model = randomised(auto.from_config(config))
        model.save_pretrained(out / name)
        plain.save_pretrained(out / name)
        read = transformers.AutoTokenizer.from_pretrained(out / name)
        expect(out / name, read, [answer(model, read, text) for text in TEXTS])
    config = transformers.BertConfig(**{**SIZES, "vocab_size": len(marked)}, **BERT)
    randomised(auto.from_config(config)).save_pretrained(out / "added")
    marked.save_pretrained(out / "added")
    for name, limit, more in (("mean", 12, [models.Normalize()]), ("dense", 32, [])):
        modules = [
            models.Transformer(str(out / "bert"), max_seq_length=limit),
            models.Pooling(16, "mean" if name == "mean" else "cls"),
            *([models.Dense(16, 6)] if name == "dense" else []),
            *more,
        ]
        encoder = SentenceTransformer(modules=modules, device="cpu")
        encoder.save(str(out / name))
        vectors = encoder.encode(list(TEXTS)).tolist()
        read = encoder.tokenizer
        read.model_max_length = limit
        expect(out / name, read, vectors)
    cross = CrossEncoder(str(out / "bert"), device="cpu")
    cross.save(str(out / "cross"))
    expect(
        out / "cross", plain, json.loads((out / "bert" / "expected.json").read_text())["answers"]
    )


def read(folder, texts):
    """Returns the ids and the answers of the library for a folder of ours."""
    texts_and_ids = json.loads(pathlib.Path(texts).read_text())
    read = transformers.AutoTokenizer.from_pretrained(folder)
    ids = read(texts_and_ids, split_special_tokens=True)["input_ids"]
    if (pathlib.Path(folder) / "modules.json").is_file():
        answers = SentenceTransformer(folder, device="cpu").encode(texts_and_ids[:50]).tolist()
    else:
        auto = transformers.AutoModelForSequenceClassification
        model = auto.from_pretrained(folder).eval()
        answers = [answer(model, read, text) for text in texts_and_ids[:50]]
    return {"ids": ids, "answers": answers}


if __name__ == "__main__":
    for line in sys.stdin:
        job = json.loads(line)
        said = read(job["read"], job["texts"]) if "read" in job else make(pathlib.Path(job["make"]))
        print("answer:", json.dumps(said), flush=True)
