"""What the Kotlin tests compare with: made here once, checked in, and checked again by the tests.

To write the files anew: `PYTHONPATH=tests python tests/test_android/vectors.py`; with names of toys
behind it, such as `vectors`, only those. They are the resources of text's tests in android_demo:
words.jsonl, places.jsonl, cut.jsonl and statistics.json beside `bundles`, four toy models as
`tfdistill export --android` puts them into an app; in one of them an index of `tfdistill index`;
search.json: what that finds; routes.json: the labels that it gives; confidence.json: how sure
`tfdistill.predictor` is of the golden texts; unigram.json: a small Unigram tokenizer, and
unigram.jsonl: what the library `tokenizers` makes of odd texts with it; running.jsonl: see
`running_texts`.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np
import tokenizers
from test_android import running_texts
from unigrams import charsmap

import export
from export.checking.outputs import model_logits
from export.targets import android_bundle, token_vectors
from tfdistill import manifest, models
from tfdistill.benchmark.statistics import stats
from tfdistill.data import index_rows, text_index
from tfdistill.data.batches import encode_examples
from tfdistill.manifest.confidence import Confidence
from tfdistill.manifest.familiarity import fit_familiarity
from tfdistill.predictor import Predictor
from tfdistill.run import index_checks, indexing
from tfdistill.tasks import Examples, SpanRules, TaskSpec, decoding, spans, squad
from tfdistill.tasks.words import joined
from tfdistill.tokenization import edge_cases
from tfdistill.tokenization import words as tokenizer_words
from tfdistill.tokenization.edge_cases import tokenizer_edge_cases
from tfdistill.tokenization.reading import read_tokenizer, read_vocab
from tfdistill.tokenization.unigram import Unigram

ROOT = pathlib.Path(__file__).parents[2]
RESOURCES = ROOT / "android_demo" / "text" / "src" / "test" / "resources"
LENGTHS = (16, 24)
TAGS = ("O", "B-PER", "I-PER")
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
WORDS = (
    *("the", "a", "it", "is", "not", "good", "bad", "film", "story", "was", "who", "made"),
    *("mary", "john", "paris", "saw", "in", "when", "did", "very", "and", "ele", "##ve", "naiv"),
    *("##s", "##ing", "##ed", "##ly", ".", ",", "?", "!", "'", "-", "(", ")", "日", "本", "한"),
)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PIECES = (*LETTERS, *("##" + letter for letter in LETTERS))
VOCABULARY = tuple(dict.fromkeys([*SPECIAL, *WORDS, *PIECES]))


def words_lines(every: int = 1) -> list[dict[str, Any]]:
    """The edge cases, or some of them, with their words; a few without lower-casing, too."""
    texts = tokenizer_edge_cases()
    cases = [(text, True) for text in texts] + [(text, False) for text in texts[::4]]
    return [
        {
            "text": text,
            "lower_case": lower_case,
            "words": " ".join(tokenizer_words.split_texts([text], lower_case=lower_case)),
        }
        for text, lower_case in cases[::every]
    ]


def places_lines(vocab_file: pathlib.Path) -> list[dict[str, Any]]:
    """Texts with the part of the text that each piece stands for."""
    cases = (text for text in tokenizer_edge_cases()[:60] if len(text) < 200)
    texts = ["Élève naïve İstanbul (Good)!", *cases]
    tokenizer = read_tokenizer(vocab_file)
    lines = []
    for text in texts:
        if any(0xD800 <= ord(letter) <= 0xDFFF for letter in text):
            continue  # as a sequence of characters, Python and Java do not mean the same
        located = tokenizer.locate([text])
        parts = [text[a:b] for a, b in zip(located.starts, located.ends, strict=True)]
        lines.append({"text": text, "ids": located.ids.tolist(), "parts": parts})
    return lines


def cut_lines(vocab_file: pathlib.Path) -> list[dict[str, Any]]:
    """Texts and pairs about as long as what is kept of them, which lose their middle."""
    tokenizer = read_tokenizer(vocab_file, truncation="middle")
    random = np.random.default_rng(9)
    lines: list[dict[str, Any]] = []
    for length in (3, 4, 5, 8, 9, 16, 24):
        texts = [sentence(random, 1, most) for most in (*[length] * 8, *[3 * length] * 8)]
        pairs = ["", " ", *(sentence(random, 1, 2 * length) for _ in texts[2:])]
        rows = tokenizer.encode_batch(texts, pairs, length)
        for i, (text, pair) in enumerate(zip(texts, pairs, strict=True)):
            lines.append(
                {
                    "text": text,
                    "pair": pair,
                    "max_length": length,
                    "ids": rows.row(i).tolist(),
                    "types": rows.row_types(i).tolist(),
                }
            )
            alone = tokenizer.encode(text, max_length=length)
            lines.append(
                {"text": text, "max_length": length, "ids": alone, "types": [0] * len(alone)}
            )
    return lines


NORMALIZED = {  # as NFKC has it, but for the last row: of these two keys the shorter one counts
    **{chr(0xFF01 + i): chr(0x21 + i) for i in range(94)},
    **{"\u00a0": " ", "\u3000": " ", "\u2003": " ", "\n": " ", "\t": " ", "\r": " ", "\x85": " "},
    **{"\xad": "", "\u200b": "", "\x07": "", "\ufeff": "", "\ufffd": "", "\u0600": ""},
    **{"e\u0301": "é", "n\u0303": "ñ", "ｶﾞ": "ガ", "ｶ": "カ", "한": "한", "\u0958": "क़"},
    **{
        "ﬁ": "fi",
        "½": "1⁄2",
        "™": "TM",
        "‼": "!!",
        "ﷺ": "صلى الله عليه وسلم",
        "𝐀": "A",
        "…": "...",
    },
    **{"A": "a", "A\u0301": "á"},
}
UNIGRAM_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
UNIGRAM_PIECES = (
    *("▁", "▁good", "▁film", "film", "oo", "goo", "fi", "lm", "ing", "▁the", "s", "▁naï", "é", "ñ"),
    *("ab", "bc", "abc", "▁a", "▁日本", "日", "本", "▁한", "한", "▁क", "क", "्", "ष", "क्ष", "़", "ा"),
    *(
        "▁ص",
        "ل",
        "ى",
        "ガ",
        "カ",
        "▁😀",
        "👍🏽",
        "🇩🇪",
        "<s>x",
        "TM",
        "1⁄2",
        "!",
        ".",
        "...",
        "á",
        "\u0301",
    ),
    *"abcdefghiklmnort",
)


def unigram() -> Unigram:
    """A tokenizer of few pieces, some of equal scores, with a small table."""
    random = np.random.default_rng(6)
    scores = random.choice(np.array([-2.5, -3.1, -4.7, -8.2], np.float32), len(UNIGRAM_PIECES))
    pieces = list(zip(UNIGRAM_PIECES, scores.astype(float).tolist(), strict=True))
    special = [(token, 0.0) for token in UNIGRAM_SPECIAL]
    return Unigram([*special, *pieces, ("<mask>", 0.0)], charsmap(NORMALIZED))


def unigram_lines() -> list[dict[str, Any]]:
    """Odd texts with the ids and places (UTF-16) of their pieces, and the ids of pairs."""
    fast = tokenizers.Tokenizer.from_str(unigram().file_text)
    random = np.random.default_rng(8)
    parts = [
        *NORMALIZED,
        *UNIGRAM_PIECES,
        *("▁", " ", "  ", " ", "\u200d", "\u0301", "\u0941", "‼\u0301", "é", "A\u0301b", "ü", "Z"),
        *(
            "<s>",
            "</s>",
            " <mask>",
            "\u2003<mask>",
            "<mas",
            "<unk>",
            "＜ｓ＞",
            "good",
            "films",
            "क्षि",
        ),
        *("👩\u200d🚀", "🇩🇪🇫🇷", "ᄒ", "ᅡ", "ᆫ", "\u0600", "\u094d", "न", "\u200c", "𝐀", "\r\n", "x"),
    ]
    texts = ["".join(random.choice(parts, size)) for size in random.integers(1, 9, 500)]
    texts = ["", " ", "\xad", "▁", "\xad ▁▁ good", *texts]
    lines = []
    for text, pair in zip(texts, reversed(texts), strict=True):
        encoded = fast.encode(text, add_special_tokens=False)
        places = np.cumsum([0, *(1 + (letter > "\uffff") for letter in text)])
        starts, ends = ([int(places[at[side]]) for at in encoded.offsets] for side in (0, 1))
        row = {"text": text, "ids": encoded.ids, "starts": starts, "ends": ends}
        lines.append({**row, "pair": pair, "pair_ids": fast.encode(text, pair).ids})
    return lines


def statistics() -> list[dict[str, Any]]:
    """Samples with what `stats.summarize` says of them."""
    random = np.random.default_rng(7)
    samples: list[list[float]] = [[2.5], [1.0, 3.0], [4.0, 4.0, 4.0], [5.0, 1.0, 2.0]]
    for count in (7, 10, 99, 100, 101, 333):
        samples.append([round(float(x), 4) for x in random.lognormal(1, 0.4, count)])
    return [{"samples_ms": values, **stats.summarize(values)} for values in samples]


def encoder() -> Any:
    """The shape of the toys."""
    return models.EncoderConfig(
        family="tinybert",
        num_layers=1,
        hidden_size=8,
        num_heads=2,
        intermediate_size=8,
        vocab_size=len(VOCABULARY),
        max_positions=max(LENGTHS),
    )


def lively(model: Any, seed: int) -> Any:
    """Gives a model weights of ordinary size, so that each one matters for the answer."""
    random = np.random.default_rng(seed)
    for variable in model.weights:
        noise = random.standard_normal(variable.shape)
        if len(variable.shape) == 1:
            variable.assign(variable + 0.1 * noise)
        else:
            scale = 1.0 if "embeddings" in variable.name else 2 / np.sqrt(variable.shape[0])
            variable.assign(scale * noise)
    return model


def sentence(random: np.random.Generator, least: int, most: int) -> str:
    """A sentence of the toys' words, some with capitals, accents, or unknown."""
    words = [word for word in WORDS if word.isascii() and word.isalpha()]
    others = "Élève naïvely films (Mary) don't 日本 Ünïted 한글".split()
    pool = [*words, *words, *others]
    return " ".join(random.choice(pool, random.integers(least, most + 1)))


def bundles(target: pathlib.Path, names: Sequence[str]) -> None:
    """Exports toys as bundles of a folder of assets."""
    few = edge_cases.tokenizer_edge_cases()[::12]
    with (
        tempfile.TemporaryDirectory() as temporary,
        mock.patch.multiple(token_vectors, tokenizer_edge_cases=lambda: few, _NUM_PAIRS=210),
    ):
        place = pathlib.Path(temporary)
        vocab_file = place / "vocab.txt"
        vocab_file.write_text("\n".join(VOCABULARY) + "\n", "utf-8")
        for name in names:
            make = MAKERS[name]
            model, task, examples, encoded = make(vocab_file)
            done = place / name / "model.tflite"
            done.parent.mkdir()
            export.to_tflite(
                model,
                done,
                quantize="float32",
                lengths=LENGTHS,
                check_on=encoded,
                texts=examples,
                task=task,
                tokenizer=vocab_file,
                softmax=name == "pairs",
                name=name,
            )
            export.to_android(done, target, texts=examples, overwrite=True)


def _pairs(vocab_file: pathlib.Path) -> tuple[Any, Any, Any, Any]:
    task = TaskSpec("toy", "text", "label", "pair", labels=("no", "yes", "maybe"))
    random = np.random.default_rng(1)
    texts = [sentence(random, 1, 9) for _ in range(24)]
    pairs = [sentence(random, 1, 7) if i % 2 else "" for i in range(24)]
    examples = Examples(task, texts, pairs, None)
    encoded = encode_examples(examples, read_tokenizer(vocab_file), max(LENGTHS))
    model = lively(models.build_classifier(encoder(), 3), 1)
    labels = model_logits(model, encoded, LENGTHS).argmax(axis=1).astype(np.int32)
    return model, task, examples, dataclasses.replace(encoded, labels=labels)


def _spans(vocab_file: pathlib.Path) -> tuple[Any, Any, Any, Any]:
    rules = SpanRules(unanswerable=True, max_answer_length=5, n_best=4, null_threshold=-4.5)
    task = TaskSpec("asked", "question", "answers", "context", kind="span", spans=rules)
    random = np.random.default_rng(2)
    tokenizer = read_tokenizer(vocab_file)
    model = lively(models.build_span_classifier(encoder().replace(pooler=False)), 2)

    def encode(questions: Sequence[squad.Question]) -> tuple[Examples, Any]:
        texts = [question.question for question in questions]
        contexts = [question.context for question in questions]
        gold = np.zeros((len(questions), 2), np.int32)
        examples = Examples(task, texts, contexts, gold, questions=list(questions))
        return examples, encode_examples(
            examples, tokenizer, max(LENGTHS), doc_stride=6, max_question_length=5
        )

    questions = [
        squad.Question(str(i), sentence(random, 1, 5), sentence(random, 4, 24), (), None)
        for i in range(20)
    ]
    _, encoded = encode(questions)
    answers = spans.decode(model_logits(model, encoded, LENGTHS), encoded, rules)
    answered = []
    for i, question in enumerate(questions):
        text = answers[i].text
        start = question.context.index(text) if text else None
        answered.append(dataclasses.replace(question, answers=(text,) if text else (), start=start))
    return model, task, *encode(answered)


def _tags(vocab_file: pathlib.Path) -> tuple[Any, Any, Any, Any]:
    task = TaskSpec("tagged", "0", "-1", kind="token", labels=TAGS)
    random = np.random.default_rng(3)
    words = [sentence(random, 2, 12).split() for _ in range(20)]
    words[3][1] = "\x7f"  # a word without a piece
    tags = np.empty(len(words), object)
    tags[:] = [np.zeros(len(row), np.int32) for row in words]
    texts, places = zip(*map(joined, words), strict=True)
    examples = Examples(task, list(texts), None, tags, word_offsets=list(places))
    reader = read_tokenizer(vocab_file)
    encoded = encode_examples(examples, reader, max(LENGTHS))
    model = lively(models.build_token_classifier(encoder().replace(pooler=False), len(TAGS)), 3)
    answers = decoding.decode_words(model_logits(model, encoded, LENGTHS), encoded)
    tags[:] = np.split(answers.words.astype(np.int32), answers.word_bounds[1:-1])
    examples = dataclasses.replace(examples, labels=tags)
    return model, task, examples, encode_examples(examples, reader, max(LENGTHS))


def _vectors(vocab_file: pathlib.Path) -> tuple[Any, Any, Any, Any]:
    task = TaskSpec("near", "a", "score", "b", kind="embedding")
    random = np.random.default_rng(4)
    texts = [sentence(random, 1, 14) for _ in range(24)]
    examples = Examples(task, texts, None, None, paired=True)
    encoded = encode_examples(examples, read_tokenizer(vocab_file), max(LENGTHS))
    shape = encoder().replace(pooler=False)
    model = lively(models.build_embedder(shape, 16), 5)
    # What all vectors have in common is taken away, so that texts differ as those of real models.
    raw = models.build_embedder(shape, 16, normalize=False)
    raw.set_weights(model.get_weights())
    (bias,) = (v for v in model.weights if v.shape == (16,))
    bias.assign_sub(model_logits(raw, encoded, LENGTHS).mean(axis=0))
    vectors = model_logits(model, encoded, LENGTHS)
    gold = np.repeat((vectors[0::2] * vectors[1::2]).sum(axis=1), 2).astype(np.float32)
    return model, task, examples, dataclasses.replace(encoded, labels=gold)


MAKERS = {"pairs": _pairs, "spans": _spans, "tags": _tags, "vectors": _vectors}
INDEXED = "vectors-float32"
THRESHOLD = 0.95


def index(folder: pathlib.Path) -> None:
    """Writes an index of invented questions into the bundle of a sentence encoder."""
    random = np.random.default_rng(5)
    texts = sorted({sentence(random, 2, 8) for _ in range(60)})
    answers = [f"{text.split()[0]}: {number}" for number, text in enumerate(texts)]
    rows = index_rows.IndexRows(texts, answers, list(range(1, len(texts) + 1)), ())
    encoder = indexing.open_encoder(str(folder))
    target = indexing.target_of(encoder, None)
    card, _ = indexing.build(rows, encoder, target, overwrite=True)
    # Of so few features even unrelated texts may be alike: no threshold follows from them.
    card = card.model_copy(update={"threshold": THRESHOLD})
    (target / "index.json").write_text(card.model_dump_json(indent=2) + "\n", "utf-8")
    android_bundle.record_index(target)


def searches(folder: pathlib.Path) -> list[dict[str, Any]]:
    """What the index finds for the golden texts of its bundle, by the golden vectors."""
    opened = text_index.read_index(folder / text_index.FOLDER)
    lines = []
    for example in json.loads((folder / "golden.json").read_bytes())["examples"]:
        matches = opened.search(np.array(example["outputs"], np.float32), 5)
        lines.append({"text": example["text"], "matches": [match._asdict() for match in matches]})
    return lines


def routes(folder: pathlib.Path) -> dict[str, Any]:
    """The same rows under three labels, each that of the nearest of three rows, and their routes.

    Returns:
      "labels" of the rows, "routes" of the card, and "answers" to the golden texts.
    """
    opened = text_index.read_index(folder / text_index.FOLDER)
    scores = text_index.scores_of(np.asarray(opened.rows), np.asarray(opened.rows[:3]))
    labels = [f"label {number}" for number in scores.argmax(axis=1)]
    fitted = index_checks.fit_routes(np.asarray(opened.rows), labels)
    assert fitted is not None
    lines = [json.dumps({"text": "-", "answer": label}).encode() for label in labels]
    card = opened.card.model_copy(update={"routes": fitted})
    router = text_index.TextIndex(card, opened.rows, lines)
    answers = [
        {
            "text": example["text"],
            **router.route(np.array(example["outputs"], np.float32))._asdict(),
        }
        for example in json.loads((folder / "golden.json").read_bytes())["examples"]
    ]
    return {"labels": labels, "routes": fitted.model_dump(mode="json"), "answers": answers}


def confidences() -> list[dict[str, Any]]:
    """Manifests with a confidence, and what the predictor answers to the golden texts then."""
    cases = []
    for name, kind, temperature, threshold, told in (
        ("pairs", "classification", 2.5, 0.5, False),
        ("pairs", "multi_label", 0.7, 0.548, False),
        ("tags", "token", 1.7, 0.05, False),
        ("pairs", "classification", 2.5, 0.4, True),
    ):
        source = RESOURCES / "bundles" / f"{name}-float32"
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(shutil.copytree(source, pathlib.Path(temporary) / name))
            card = manifest.read_manifest(folder)
            sure = {"threshold": threshold, "coverage": 0.5, "error": 0.04}
            promises = (
                {"max_error": 0.05, "rows": 300, **sure},
                {"max_error": 0.1, "rows": 300, "rows_needed": 900},
            )
            surer = {"threshold": threshold + 0.05, "coverage": 0.4, "disagreement": 0.01}
            agreements = (
                {"max_disagreement": 0.02, "rows": 300, **surer},
                {"max_disagreement": 0.1, "rows": 20, "rows_needed": 22},
            )
            texts = list(_confidence_texts(folder, pairs=card.task.pair))
            encoded = _encoded(folder, card, texts) if told else None
            familiarity = None if encoded is None else _familiarity(folder, encoded)
            record = Confidence.of_file(
                card.model.sha256,
                temperature=temperature,
                num_examples=200,
                promises=promises,
                familiarity=familiarity,
                agreements=agreements,
            )
            task = card.task.model_copy(update={"kind": kind})
            changed = card.model_copy(update={"confidence": record, "task": task})
            manifest.write_manifest(changed, folder)
            answers = []
            with Predictor(folder) as predictor, Predictor(folder, max_disagreement=0.02) as other:
                for text, pair in texts:
                    answer = predictor.predict(text, pair)
                    agrees = other.predict(text, pair).sure
                    labels = [answer.label] if isinstance(answer.label, str) else list(answer.label)
                    facts = {"probability": answer.probability, "sure": answer.sure}
                    facts["sure_by_agreement"] = agrees
                    answers.append({"text": text, "pair": pair, "labels": labels, **facts})
            if familiarity is not None:
                for answer, score in zip(answers, familiarity.scores(encoded), strict=True):
                    answer["score"] = float(score)
        confidence = record.model_dump(mode="json")
        bundle = f"{name}-float32"
        cases.append({"bundle": bundle, "kind": kind, "confidence": confidence, "answers": answers})
    return cases


def _encoded(folder: pathlib.Path, card: Any, texts: Sequence[tuple[str, str | None]]) -> Any:
    tokenizer = read_tokenizer(folder / "vocab.txt", card.tokenizer.lower_case).fast
    first, second = zip(*texts, strict=True)
    return tokenizer.encode_batch(first, second, card.tokenizer.max_length)


def _familiarity(folder: pathlib.Path, encoded: Any) -> Any:
    """That of half of the texts, so that the others are of another kind."""
    half = encoded.select(np.arange(1200) % (len(encoded) // 2))
    return fit_familiarity(half, half, read_vocab(folder / "vocab.txt"))


def _confidence_texts(folder: pathlib.Path, *, pairs: bool) -> Iterator[tuple[str, str | None]]:
    """The golden texts with their pairs, or those whose words are parted by blanks alone."""
    golden = json.loads((folder / "golden.json").read_bytes())
    if pairs:
        for example in golden["examples"]:
            if example["text"]:
                yield example["text"], example["pair"] or ""
        return
    for sentence in golden["sentences"]:
        text = golden["examples"][sentence["example"]]["text"]
        if text and text.split() == sentence["words"]:
            yield text, None


def jsonl(lines: Sequence[dict[str, Any]], separators: tuple[str, str] | None = None) -> str:
    """A line of ASCII each."""
    return "".join(json.dumps(line, separators=separators) + "\n" for line in lines)


def main(names: Sequence[str]) -> None:
    """Writes the bundles of these names, and all other files."""
    RESOURCES.mkdir(parents=True, exist_ok=True)
    bundles(RESOURCES, [name for name in names if name in MAKERS])
    vocab_file = RESOURCES / "bundles" / "pairs-float32" / "vocab.txt"
    indexed = RESOURCES / "bundles" / INDEXED
    if "vectors" in names:
        index(indexed)
    tagger = RESOURCES / "bundles" / "tags-float32"
    running = jsonl(running_texts.running_lines(tagger, unigram()), (",", ":"))
    for name, content in {
        "words.jsonl": jsonl(words_lines()),
        "places.jsonl": jsonl(places_lines(vocab_file)),
        "cut.jsonl": jsonl(cut_lines(vocab_file)),
        "unigram.json": unigram().file_text,
        "unigram.jsonl": jsonl(unigram_lines()),
        "running.jsonl": running,
        "statistics.json": json.dumps(statistics(), indent=1) + "\n",
        "search.json": json.dumps(searches(indexed), indent=1) + "\n",
        "routes.json": json.dumps(routes(indexed), indent=1) + "\n",
        "confidence.json": json.dumps(confidences(), indent=1) + "\n",
    }.items():
        (RESOURCES / name).write_text(content, "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or list(MAKERS))
