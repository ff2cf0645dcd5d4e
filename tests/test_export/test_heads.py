"""Models of spans and of tokens, as files: parity, metrics, and what a program has to decode."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

import export
from export.checking import golden
from export.checking.outputs import file_outputs, model_logits
from export.conversion import convert, quantize
from export.model import inputs, request
from export.model.heads import HEADS, head_of_file
from tfdistill import errors, manifest, models
from tfdistill.data.batches import Batches, encode_examples
from tfdistill.tasks import Examples, SpanRules, TaskSpec, decoding, spans, squad
from tfdistill.tasks.words import joined
from tfdistill.tflite import TfliteModel, agreement, editing
from tfdistill.tokenization.reading import read_tokenizer

LENGTHS = (16, 24)
FLOATS = "floats.tflite"
STRIDE, QUESTION = 6, 4
SPANS = SpanRules(unanswerable=True, max_answer_length=5, n_best=4, null_threshold=0.3)
SPAN_TASK = TaskSpec("asked", "question", "answers", "context", kind="span", spans=SPANS)
TAGS = ("O", "B-A", "I-A", "B-B", "I-B")
TOKEN_TASK = TaskSpec("tagged", "0", "-1", kind="token", labels=TAGS)


def sentence(random, least, most):
    return [f"w{random.integers(190)}" for _ in range(random.integers(least, most + 1))]


@pytest.fixture(scope="session")
def span_toy(toy, lively):
    config = toy.config.replace(pooler=False)
    model = lively(models.build_span_classifier(config), seed=4)
    random = np.random.default_rng(2)
    tokenizer = read_tokenizer(toy.vocab_file)

    def encode(questions):
        texts = [question.question for question in questions]
        contexts = [question.context for question in questions]
        gold = np.zeros((len(texts), 2), np.int32)
        examples = Examples(SPAN_TASK, texts, contexts, gold, questions=questions)
        windows = {"doc_stride": STRIDE, "max_question_length": QUESTION}
        return examples, encode_examples(examples, tokenizer, max(LENGTHS), **windows)

    questions = [
        squad.Question(
            str(i), " ".join(sentence(random, 1, 6)), " ".join(sentence(random, 3, 40)), (), None
        )
        for i in range(40)
    ]
    _, encoded = encode(questions)
    answers = spans.decode(model_logits(model, encoded, LENGTHS), encoded, SPANS)
    labelled = []
    for i, question in enumerate(questions):
        text = answers[i].text if i % 8 else question.context.split()[0]
        gold = (text,) if text else ()
        start = question.context.index(text) if text else None
        labelled.append(dataclasses.replace(question, answers=gold, start=start))
    texts, encoded = encode(labelled)
    other = {"model": model, "task": SPAN_TASK, "texts": texts, "encoded": encoded}
    return dataclasses.replace(toy, lengths=LENGTHS, **other)


@pytest.fixture(scope="session")
def token_toy(toy, lively):
    config = toy.config.replace(pooler=False)
    model = lively(models.build_token_classifier(config, len(TAGS)), seed=5)
    random = np.random.default_rng(3)
    tokenizer = read_tokenizer(toy.vocab_file)
    words = [sentence(random, 2, 30) for _ in range(60)]
    words[3][1] = "\x7f"  # a word without a piece
    texts, places = zip(*map(joined, words), strict=True)
    examples = Examples(TOKEN_TASK, list(texts), None, None, word_offsets=list(places))
    tags = np.empty(len(words), object)
    for i, sentence_words in enumerate(words):
        tags[i] = np.zeros(len(sentence_words), np.int32)
    examples = dataclasses.replace(examples, labels=tags)
    encoded = encode_examples(examples, tokenizer, max(LENGTHS))
    answers = decoding.decode_words(model_logits(model, encoded, LENGTHS), encoded)
    labels = [part.astype(np.int32) for part in np.split(answers.words, answers.word_bounds[1:-1])]
    for number in range(0, len(labels), 9):
        labels[number][:] = 0
    tags[:] = labels
    examples = dataclasses.replace(examples, labels=tags)
    encoded = encode_examples(examples, tokenizer, max(LENGTHS))
    other = {"model": model, "task": TOKEN_TASK, "texts": examples, "encoded": encoded}
    return dataclasses.replace(toy, lengths=LENGTHS, **other)


@pytest.fixture(scope="session")
def done(span_toy, token_toy, tmp_path_factory):
    """Exports one of the two in a quantization, once; its float32 conversion stays beside it."""
    cache = {}

    def get(head, name):
        if (head, name) not in cache:
            toy = {"span": span_toy, "token": token_toy}[head]
            path = tmp_path_factory.mktemp(f"{head}_{name}") / "model.tflite"
            run = convert.run_in_child

            def keeping(todo, **options):
                run(todo, **options)
                shutil.copy(todo.float_file or todo.file, path.with_name(FLOATS))

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(convert, "run_in_child", keeping)
                # Random tags lie close together: more of them turn than those of a trained model.
                card = toy.export(path, quantize=name, bounds={"metric_drop": 0.06})
            cache[head, name] = toy, path, card
        return cache[head, name]

    return get


CASES = [
    ("span", "float32"),
    pytest.param("span", "dynamic_wi8_afp32", marks=pytest.mark.thorough),
    pytest.param("token", "float32", marks=pytest.mark.thorough),
    ("token", "dynamic_wi8_afp32"),
]
# What the toys reach, seeded: 128 and 37 dB. A factor of two is left for other kernels.
TIGHT = {
    "float32": quantize.Bounds(1e-5, 1e-6, 118.0, 1.0, 0.0),
    "dynamic_wi8_afp32": quantize.Bounds(0.15, 0.03, 31.0, 0.93, 0.05),
}


@pytest.mark.slow
@pytest.mark.parametrize(("head", "name"), CASES)
def test_the_file_answers_like_the_model_for_every_token(head, name, done):
    toy, path, card = done(head, name)
    file = TfliteModel(path)
    said = model_logits(toy.model, toy.encoded, file.lengths), file_outputs(file, toy.encoded)
    decided = [HEADS[head].decisions(outputs, toy.encoded) for outputs in said]
    received = agreement.compare(*said, decisions=decided)
    assert said[1].shape == (toy.encoded.num_tokens, 2 if head == "span" else 5)
    assert agreement.violations(received, TIGHT[name]) == []
    assert card.parity.sqnr_db == pytest.approx(received.sqnr_db, rel=1e-6)
    assert card.parity.argmax_agreement == received.argmax_agreement
    assert card.parity.num_examples == len(toy.encoded)
    assert card.parity.num_scored == len(set(toy.encoded.sources.tolist())) < len(toy.encoded)
    expected = {"span": len(toy.encoded), "token": int((toy.encoded.labels >= 0).sum())}
    assert received.num_decisions == expected[head]


@pytest.mark.parametrize(("head", "name"), CASES)
def test_spans_and_tags_are_held_to_what_their_format_costs(head, name, done):
    _, _, card = done(head, name)
    bounds = card.parity.bounds
    if name == "float32":
        assert bounds["sqnr_db"] == quantize.quantization(name).bounds.sqnr_db
    else:  # four times the noise of the rounding itself, and that of other examples
        assert card.parity.sqnr_db - 9 < bounds["sqnr_db"] < card.parity.sqnr_db - 3
        assert bounds["argmax_agreement"] > 0.7


def test_the_manifest_says_how_answers_are_read_off(done):
    _, path, card = done("span", "float32")
    assert manifest.read_manifest(path) == card
    assert (card.task.kind, card.task.labels, card.task.pair) == ("span", (), True)
    assert (card.task.text_column, card.task.pair_column) == (None, None)  # no cells of a table
    rules = dataclasses.asdict(SPANS)
    assert card.task.span.model_dump() == {"doc_stride": 6, "max_question_length": 4, **rules}
    outputs = {n: (t.dtype, t.shape) for n, t in card.signatures["len16"].outputs.items()}
    assert outputs == dict.fromkeys(("start_logits", "end_logits"), ("float32", (1, 16)))
    assert card.labels_file is None
    _, path, card = done("token", "dynamic_wi8_afp32")
    assert (card.task.kind, card.task.labels, card.task.span) == ("token", TAGS, None)
    assert (path.parent / "labels.txt").read_text() == "".join(f"{tag}\n" for tag in TAGS)
    assert card.signatures["len24"].outputs["logits"].shape == (1, 24, 5)


def windows_by_the_manifest(question, card, vocab):
    """What a phone does: whole words are pieces here, so splitting at spaces is the tokenizer."""
    record = card.task.span
    question_ids = [vocab[word] for word in question["question"].split()][
        : record.max_question_length
    ]
    words = question["context"].split()
    places, begin = [], 0
    for word in words:
        begin = question["context"].index(word, begin)
        places.append((begin, begin + len(word)))
        begin += len(word)
    room = card.tokenizer.max_length - 3 - len(question_ids)
    starts = [0]
    while starts[-1] + room < len(words):
        starts.append(starts[-1] + record.doc_stride)
    return question_ids, words, places, [(start, min(start + room, len(words))) for start in starts]


def answer_by_the_manifest(question, card, vocab, predict):
    """Decodes as `SpanRecord` says, one candidate after the other."""
    record = card.task.span
    question_ids, words, places, windows = windows_by_the_manifest(question, card, vocab)
    offset = 2 + len(question_ids)
    best, best_score, null = "", -np.inf, np.inf
    margin = {
        (number, token): min(token - first, last - 1 - token)
        for number, (first, last) in enumerate(windows)
        for token in range(first, last)
    }
    for number, (first, last) in enumerate(windows):
        ids = [2, *question_ids, 3, *(vocab[word] for word in words[first:last]), 3]
        logits = predict(ids, [0] * offset + [1] * (last - first + 1))
        null = min(null, logits[0, 0] + logits[0, 1])
        tokens = range(first, last)
        shown = [
            token
            for token in tokens
            if all(
                margin[number, token] > margin.get((other, token), -1)
                or (number <= other and margin[number, token] == margin.get((other, token), -1))
                for other in range(len(windows))
            )
        ]

        def largest(column, allowed, logits=logits, first=first):
            ordered = sorted(allowed, key=lambda t: -logits[offset + t - first, column])
            return ordered[: record.n_best]

        for start in largest(0, shown):
            for end in largest(1, tokens):
                score = logits[offset + start - first, 0] + logits[offset + end - first, 1]
                if 0 <= end - start < record.max_answer_length and score > best_score:
                    best_score = score
                    best = question["context"][places[start][0] : places[end][1]]
    if record.unanswerable and null - best_score > record.null_threshold:
        best = ""
    return best, best_score, null


def test_golden_questions_are_what_the_manifest_alone_gives(done):
    toy, path, card = done("span", "float32")
    content = json.loads((path.parent / "golden.json").read_text())
    vocab = {t: i for i, t in enumerate(toy.vocab_file.read_text().split())}
    file, tokenizer = TfliteModel(path), read_tokenizer(toy.vocab_file)
    assert len(content["questions"]) >= 8
    several = [question for question in content["questions"] if len(question["examples"]) > 2]
    assert len(several) >= 2
    assert len({question["answer"] == "" for question in content["questions"]}) == 2
    for question in content["questions"]:
        answer, score, null = answer_by_the_manifest(question, card, vocab, file.predict)
        assert question["answer"] == answer
        assert question["score"] == pytest.approx(score, abs=1e-5)
        assert question["null_score"] == pytest.approx(null, abs=1e-5)
        question_ids, words, _, windows = windows_by_the_manifest(question, card, vocab)
        assert len(question["examples"]) == len(windows)
        for place, (first, last) in zip(question["examples"], windows, strict=True):
            row = content["examples"][place]
            context = [vocab[word] for word in words[first:last]]
            assert row["input_ids"] == [2, *question_ids, 3, *context, 3]
            outputs = file.predict(row["input_ids"], row["token_type_ids"])
            np.testing.assert_allclose(row["outputs"], outputs, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(row["logits"], outputs, rtol=0, atol=1e-4)
    # Text and pair stand by a row only where cutting the pair makes the row of them.
    whole = [row for row in content["examples"] if row["text"] is not None]
    assert 0 < len(whole) < len(content["examples"])
    for row in whole:
        assert row["input_ids"] == tokenizer.encode(row["text"], row["pair"], 24)


def test_golden_sentences_hold_the_tag_of_every_word(done):
    toy, path, _ = done("token", "dynamic_wi8_afp32")
    content = json.loads((path.parent / "golden.json").read_text())
    tokenizer, file = read_tokenizer(toy.vocab_file), TfliteModel(path)
    assert len(content["sentences"]) >= 16
    tags, changed = set(), 0
    for entry in content["sentences"]:
        pieces = [tokenizer.pieces([word])[0].tolist() or [1] for word in entry["words"]]
        ids = [2, *(piece for word in pieces for piece in word), 3]
        row = content["examples"][entry["example"]]
        assert row["input_ids"] == ids
        assert entry["first_pieces"] == [
            1 + sum(map(len, pieces[:place])) for place in range(len(pieces))
        ]
        assert [entry["text"][start:end] for start, end in entry["offsets"]] == entry["words"]
        outputs = file.predict(ids)[entry["first_pieces"]]
        path = decoding.best_path(outputs, decoding.allowed(TAGS), np.array([0, len(outputs)]))
        assert entry["tags"] == [TAGS[tag] for tag in path]
        changed += not np.array_equal(path, outputs.argmax(axis=1))
        tags |= set(entry["tags"])
    assert len(tags) > 2 and changed


def replayed(monkeypatch, source, alter):
    """Makes the converter hand out a changed copy of a file."""

    def hand_out(conversion, **_):
        content = editing.read(source)
        alter(content)
        editing.write(content, conversion.file)

    monkeypatch.setattr("export.model.signature.save", lambda *_, **__: None)
    monkeypatch.setattr("export.conversion.convert.run_in_child", hand_out)


def swap(content):
    for entry in content.signatureDefs:
        first, second = entry.outputs
        first.tensorIndex, second.tensorIndex = second.tensorIndex, first.tensorIndex


def test_neither_mixed_up_starts_and_ends_nor_the_file_of_another_head_is_taken(
    done, monkeypatch, tmp_path
):
    toy, path, _ = done("span", "float32")
    _, of_tokens, _ = done("token", "dynamic_wi8_afp32")  # before conversions are replayed
    replayed(monkeypatch, path, swap)
    with pytest.raises(errors.ParityError) as caught:
        toy.export(tmp_path / "m.tflite", quantize="float32")
    quantities = ("max error", "mean error", "SQNR", "argmax")
    assert [quantity for quantity in quantities if quantity not in str(caught.value)] == []

    replayed(monkeypatch, of_tokens.with_name(FLOATS), lambda content: None)
    with pytest.raises(errors.ExportError, match=r"outputs of len16: .*end_logits.*\(1, 16, 5\)"):
        toy.export(tmp_path / "m.tflite", quantize="float32")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_tags_of_tokens_can_be_had_as_probabilities(token_toy, tmp_path):
    path = tmp_path / "m.tflite"
    card = token_toy.export(path, quantize="float32", softmax=True, lengths=(24,))
    file = TfliteModel(path)
    assert (head_of_file(file).name, [*file.outputs]) == ("token", ["scores"])
    np.testing.assert_allclose(file.predict([2, 9, 3]).sum(axis=1), np.ones(3), rtol=1e-5)
    assert card.parity.sqnr_db > 100


@pytest.mark.parametrize(("head", "name"), [("span", "float32"), ("token", "dynamic_wi8_afp32")])
def test_without_labels_the_agreement_alone_is_checked(head, name, done, monkeypatch, tmp_path):
    toy, path, _ = done(head, name)
    replayed(monkeypatch, path.with_name(FLOATS), lambda content: None)
    unlabelled = dataclasses.replace(toy.encoded, labels=None)
    card = toy.export(tmp_path / "m.tflite", quantize="float32", check_on=unlabelled)
    assert (card.parity.inputs, card.parity.file_metrics) == ("real", {})
    assert (card.parity.model_metrics, card.parity.file_metrics) == ({}, {})
    content = json.loads((tmp_path / "golden.json").read_text())
    assert content["questions" if head == "span" else "sentences"]


def test_without_examples_windows_are_described_by_the_usual_rule(done, monkeypatch, tmp_path):
    toy, path, _ = done("span", "float32")
    replayed(monkeypatch, path, lambda content: None)
    card = export.to_tflite(
        toy.model, tmp_path / "m.tflite", lengths=LENGTHS, quantize="float32", task=toy.task
    )
    assert card.parity.inputs == "random"
    assert not card.parity.file_metrics
    assert (card.task.span.doc_stride, card.task.span.max_question_length) == (12, 12)
    assert json.loads((tmp_path / "golden.json").read_text())["questions"] == []


def test_batches_of_tokens_keep_their_labels(token_toy):
    batches = Batches(token_toy.encoded, batch_size=7, shuffle=False)
    collected = inputs.collect(list(batches.dataset()))
    expected = token_toy.encoded.select(np.concatenate(batches.plan(0)))
    assert collected.token_labels
    np.testing.assert_array_equal(collected.labels, expected.labels)
    np.testing.assert_array_equal(collected.ids, expected.ids)


MISFITS = {
    "span_as_classes": ("span", {"task": TOKEN_TASK}, errors.ConfigError, "answers with a span"),
    "tags_as_span": ("token", {"task": SPAN_TASK}, errors.ConfigError, "classifier of tokens"),
    "probabilities": ("span", {"softmax": True}, errors.ConfigError, "exclude each other"),
    "names": ("span", {"labels": ("a", "b")}, errors.ConfigError, "0 different names"),
    "tags": ("token", {"labels": ("a", "b")}, errors.ConfigError, "5 different names"),
    "order": ("token", {"labels": TAGS[::-1]}, errors.ConfigError, "order of task 'tagged'"),
    "short": ("token", {"lengths": (16,)}, errors.DataError, "at most 16 tokens"),
    "texts": ("span", {"texts": "half"}, errors.DataError, "texts: expected 40"),
    "sentences": ("token", {"texts": "half"}, errors.DataError, "texts: expected 60"),
    "windows": ("span", {"check_on": "batches"}, errors.DataError, "windows of questions"),
}


@pytest.mark.parametrize(("head", "changes", "error", "message"), MISFITS.values(), ids=MISFITS)
def test_what_does_not_belong_together_is_refused_before_any_work(
    head, changes, error, message, span_toy, token_toy, monkeypatch, tmp_path
):
    monkeypatch.setattr("export.model.signature.save", lambda *_, **__: pytest.fail("work began"))
    toy = {"span": span_toy, "token": token_toy}[head]
    if changes.get("texts") == "half":
        changes = {"texts": toy.texts.select(range(20))}
    if "check_on" in changes:
        changes = {"check_on": list(Batches(toy.encoded, batch_size=8).dataset()), "texts": None}
    with pytest.raises(error, match=message):
        toy.export(tmp_path / "m.tflite", **changes)


@pytest.mark.parametrize("head", ["span", "token"])
def test_rows_of_another_kind_are_no_examples_of_a_task(head, span_toy, token_toy):
    """Labels for whole rows, and windows whose texts are not known."""
    toy = {"span": span_toy, "token": token_toy}[head]
    whole = {"span_sources": None, "token_labels": False}
    plain = dataclasses.replace(toy.encoded, labels=np.zeros(len(toy.encoded), np.int32), **whole)
    for encoded, real in ((toy.encoded, True), (plain, False)):
        request.check_texts(None, encoded, toy.task, real=real)
    with pytest.raises(errors.DataError, match=f"check_on for task '{toy.task.name}'"):
        request.check_texts(None, plain, toy.task, real=True)


def test_windows_that_a_phone_would_cut_otherwise_are_refused(span_toy):
    """Checked on windows of 24 tokens, a file whose longest signature holds 32."""
    tokenizer = read_tokenizer(span_toy.vocab_file)
    long = [i for i, text in enumerate(span_toy.texts.pairs) if len(text.split()) > 32]
    questions = [span_toy.texts.questions[i] for i in long]
    examples = dataclasses.replace(span_toy.texts.select(long), questions=questions)
    windows = {"doc_stride": STRIDE, "max_question_length": QUESTION}
    encoded = encode_examples(examples, tokenizer, 24, **windows)
    answers = np.zeros((encoded.num_tokens, 2), np.float32)
    with pytest.raises(errors.DataError, match="encoded with the longest of lengths"):
        golden.questions(encoded, tokenizer, 32, answers, SPANS)
    assert golden.questions(encoded, tokenizer, 24, answers, SPANS)
