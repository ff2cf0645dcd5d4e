"""RoBERTa and CamemBERT: states and answers of the TensorFlow classes of transformers."""

import json

import numpy as np
import pytest
import tokenizers
import transformers
from test_weights.references import SIZES, TOLERANCE, save_random

from tfdistill import cli, errors, tasks, training
from tfdistill.data import batches
from tfdistill.run import inputs
from tfdistill.weights import roberta

TEXTS = (
    *("a good film", "bad story", " two  spaces", "Großartig, naïve café!", "日本 🙂 ok", "", "a"),
    *("long " * 30, "tabs\tand\nlines", "it's the film's story", "<s> </s> <mask>"),
)
PAIRS = ("why", "", "is it? yes", "b", "", "x", "y " * 40, "z", "w", "good", "film")
FAMILIES = {
    "roberta": ("Roberta", "BPE"),
    "camembert": ("Camembert", "Unigram"),
}


def tokenizer_of(kind, folder):
    """A toy tokenizer of the family, as transformers makes it."""
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    words = [*TEXTS, *PAIRS] * 3
    if kind == "BPE":
        trained = tokenizers.ByteLevelBPETokenizer()
        trained.train_from_iterator(words, vocab_size=330, special_tokens=specials)
        files = trained.save_model(str(folder))  # as the released folders have them
        return transformers.RobertaTokenizerFast(*files)
    trained = tokenizers.SentencePieceUnigramTokenizer()
    trained.train_from_iterator(words, vocab_size=120, special_tokens=specials, unk_token="<unk>")
    trained.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[("<s>", 0), ("</s>", 2)],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=trained._tokenizer,
        **dict.fromkeys(("bos_token", "cls_token"), "<s>"),
        **dict.fromkeys(("eos_token", "sep_token"), "</s>"),
        **{"unk_token": "<unk>", "pad_token": "<pad>", "mask_token": "<mask>"},
    )


@pytest.fixture(
    scope="module",
    params=["roberta", pytest.param("camembert", marks=pytest.mark.thorough)],
)
def checkpoint(request, tmp_path_factory):
    """A toy classifier that transformers saved: (family, tokenizer, model, folder)."""
    family, kind = FAMILIES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    tokenizer = tokenizer_of(kind, folder)
    sizes = {**SIZES, "vocab_size": len(tokenizer) + 3, "max_position_embeddings": 26}
    config = getattr(transformers, f"{family}Config")(
        **{"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, **sizes},
        **{"intermediate_size": 24, "type_vocab_size": 1, "layer_norm_eps": 1e-3},
        id2label={0: "no", 1: "yes", 2: "maybe"},
    )
    model = getattr(transformers, f"TF{family}ForSequenceClassification")(config)
    save_random(model, tokenizer, folder)
    return request.param, tokenizer, model, folder


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("max_length", [24, 9])
def test_texts_have_the_ids_of_transformers(checkpoint, paired, max_length):
    _, tokenizer, model, folder = checkpoint
    sizes = {"pad_id": 1, "num_rows": model.config.vocab_size}
    opened = roberta.read_roberta_tokenizer(folder / "tokenizer.json", **sizes)
    pairs = list(PAIRS) if paired else None
    encoded = opened.encode_batch(TEXTS, pairs, max_length)
    for index, text in enumerate(TEXTS):
        strings = ([text], [PAIRS[index]]) if paired else ([text],)  # a batch reads "" as a text
        (expected,) = tokenizer(*strings, truncation=True, max_length=max_length)["input_ids"]
        assert encoded.row(index).tolist() == expected
    assert not encoded.types.any()


def test_padded_texts_have_the_logits_of_transformers(checkpoint):
    _, tokenizer, model, folder = checkpoint
    features = tokenizer(
        list(TEXTS), truncation=True, max_length=24, padding=True, return_tensors="np"
    )
    arrays = {name: np.asarray(features[name]) for name in ("input_ids", "attention_mask")}
    expected = model(arrays).logits
    loaded, _ = roberta.load_roberta(folder)
    ours = loaded.model({**arrays, "token_type_ids": np.zeros_like(arrays["input_ids"])})
    np.testing.assert_allclose(ours, expected, atol=TOLERANCE)
    assert loaded.labels == ("no", "yes", "maybe")


def answered(folder, tmp_path, *more):
    """The rows that the command writes."""
    out = tmp_path / "answers.jsonl"
    line = ["answers", str(folder), "--task", "kinds", "--data-dir", str(tmp_path), "--text-column"]
    assert cli.main([*line, "text", "--label-column", "kind", "--out", str(out), *more]) == 0
    return map(json.loads, out.read_text(encoding="utf-8").splitlines())


@pytest.mark.slow
def test_a_task_is_answered_by_the_command(checkpoint, tmp_path):
    """The labels in another order than the model's, through tokenizer, batches and file."""
    _, tokenizer, model, folder = checkpoint
    words = [text for text in TEXTS if text.split()]
    labels = ["yes", "no", "maybe"]
    rows = [{"text": text, "kind": labels[i % 3]} for i, text in enumerate(words)]
    for split in ("train", "dev"):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    answers = {row.pop("text"): row for row in answered(folder, tmp_path, "--max-length", "24")}
    assert answers.keys() == set(words)
    for text in words:
        encoded = tokenizer(text, truncation=True, max_length=24, return_tensors="np")
        (expected,) = model(dict(encoded)).logits.numpy()
        logits = [answers[text][f"logits.{label}"] for label in ("no", "yes", "maybe")]
        np.testing.assert_allclose(logits, expected, atol=10 * TOLERANCE)


@pytest.mark.slow
def test_the_texts_of_the_command_lose_their_middle_where_it_is_asked_to(checkpoint, tmp_path):
    _, tokenizer, model, folder = checkpoint
    words = "it is not a good film and the story was very bad".split()
    texts = [" ".join(words[i:] + words[:i]) for i in range(6)]
    rows = [{"text": text, "kind": ("yes", "no", "maybe")[i % 3]} for i, text in enumerate(texts)]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    length = 9
    options = ("--split", "train", "--truncation", "middle", "--max-length", str(length))
    answers = list(answered(folder, tmp_path, *options))
    for row in answers:
        ids = tokenizer(row["text"])["input_ids"]
        assert len(ids) > length
        ids = np.array([[*ids[:5], *ids[-4:]]])  # 4 and 3 of the text, a special token at each end
        (expected,) = model({"input_ids": ids, "attention_mask": np.ones_like(ids)}).logits.numpy()
        logits = [row[f"logits.{label}"] for label in ("no", "yes", "maybe")]
        np.testing.assert_allclose(logits, expected, atol=10 * TOLERANCE)
    assert len(answers) == 6


@pytest.mark.slow
@pytest.mark.parametrize("checkpoint", ["roberta"], indirect=True)
def test_it_is_evaluated_and_asked_for_nothing_but_texts(checkpoint):
    *_, folder = checkpoint
    spec = tasks.TaskSpec("kinds", "text", "kind", labels=("yes", "no", "maybe"))
    source = inputs.open_source(str(folder), spec, roberta=True).in_order_of(spec)
    logits = training.predict_logits(
        source.model,
        batches.Batches(
            batches.encode_examples(
                tasks.Examples(spec, list(TEXTS), None, None), source.tokenizer, 24
            ),
            shuffle=False,
        ),
    )
    truth = np.argmax(logits, axis=1)
    examples = tasks.Examples(spec, list(TEXTS), None, truth.astype(np.int32))
    encoded = batches.encode_examples(examples, source.tokenizer, 24)
    outputs = source.outputs(batches.Batches(encoded, shuffle=False), spec)
    metrics = source.score(outputs, encoded, spec)
    assert metrics["accuracy"] == 1.0
    tags = tasks.TaskSpec("tags", "words", "tags", labels=("O", "B-X", "I-X"), kind="token")
    with pytest.raises(errors.WeightsError, match="a model with BERT's tokenizer"):
        inputs.open_source(str(folder), tags, roberta=True)


def damaged(folder, target, name, change):
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    path = target / name
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    path.write_text(json.dumps(value), encoding="utf-8")
    return target


@pytest.mark.parametrize("checkpoint", ["roberta"], indirect=True)
@pytest.mark.parametrize(
    ("name", "change", "error", "message"),
    [
        ("config.json", {"pad_token_id": 99}, errors.WeightsError, "a table that begins behind"),
        ("config.json", {"vocab_size": 7}, errors.WeightsError, "tensors of"),
        ("config.json", {"position_embedding_type": "relative"}, errors.WeightsError, "absolute"),
        ("tokenizer.json", {"model": {"type": "WordPiece"}}, errors.VocabularyError, "one of BPE"),
        (
            "tokenizer.json",
            {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+$"}}},
            errors.VocabularyError,
            "no regular expressions",
        ),
        ("tokenizer.json", {"model": {"type": "BPE"}}, errors.VocabularyError, "can read"),
        ("tokenizer_config.json", {"truncation_side": "left"}, errors.WeightsError, "'right'"),
    ],
)
def test_what_does_not_fit_is_refused(checkpoint, tmp_path, name, change, error, message):
    folder = damaged(checkpoint[3], tmp_path, name, lambda value: value.update(change))
    with pytest.raises(error, match=message):
        inputs.open_source(str(folder), roberta=True)


@pytest.mark.parametrize("checkpoint", ["roberta"], indirect=True)
def test_its_tokenizer_limits_texts_and_scores_are_refused(checkpoint, tmp_path):
    settings = ("tokenizer_config.json", lambda value: value.update(model_max_length=8))
    source = inputs.open_source(str(damaged(checkpoint[3], tmp_path, *settings)), roberta=True)
    assert source.max_length == 8
    activation = {"activation_fn": "torch.nn.modules.activation.Sigmoid"}
    settings = ("config.json", lambda value: value.update(sentence_transformers=activation))
    folder = str(damaged(checkpoint[3], tmp_path, *settings))
    task = tasks.TaskSpec("mine", "text", "label", labels=("no", "yes", "maybe"))
    with pytest.raises(errors.WeightsError, match="function of its logits"):
        inputs.open_source(folder, task, roberta=True)


@pytest.mark.parametrize("checkpoint", ["roberta", "camembert"], indirect=True)
def test_a_tokenizer_whose_model_has_no_type_is_read(checkpoint, tmp_path):
    settings = ("tokenizer.json", lambda value: value["model"].pop("type"))
    opened = inputs.open_source(str(damaged(checkpoint[3], tmp_path, *settings)), roberta=True)
    whole = inputs.open_source(str(checkpoint[3]), roberta=True)
    for text in TEXTS:
        assert opened.tokenizer.encode(text) == whole.tokenizer.encode(text)


@pytest.mark.parametrize(
    ("settings", "prefixed"),
    [
        (None, False),
        ({"tokenizer_class": "RobertaTokenizer"}, False),
        ({"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True}, True),
        ({"tokenizer_class": "TokenizersBackend"}, True),  # as transformers 5 reads it
        ({"tokenizer_class": "PreTrainedTokenizerFast"}, None),
    ],
)
def test_a_text_begins_with_a_space_as_its_class_has_it(tmp_path, settings, prefixed):
    tokenizer_of("BPE", tmp_path).save_pretrained(tmp_path)
    path, config = tmp_path / "tokenizer.json", tmp_path / "tokenizer_config.json"
    described = json.loads(path.read_text())
    described["pre_tokenizer"]["add_prefix_space"] = True
    path.write_text(json.dumps(described))
    config.unlink() if settings is None else config.write_text(json.dumps(settings))
    sizes = {"pad_id": 1, "num_rows": 400}
    if prefixed is None:
        with pytest.raises(errors.VocabularyError, match="add_prefix_space: expected True, as in"):
            roberta.read_roberta_tokenizer(path, **sizes)
        return
    tokenizer = roberta.read_roberta_tokenizer(path, **sizes)
    assert (tokenizer.encode("film") == tokenizer.encode(" film")) is prefixed


@pytest.mark.parametrize("checkpoint", ["roberta"], indirect=True)
def test_other_commands_name_the_way(checkpoint, tmp_path):
    from tfdistill import weights

    with pytest.raises(errors.WeightsError, match="with `tfdistill answers`, of others with scri"):
        weights.load_classifier(checkpoint[3])
    (tmp_path / "config.json").write_bytes((checkpoint[3] / "config.json").read_bytes())
    with pytest.raises(errors.WeightsError, match=r"tokenizer\.json, received no such file"):
        inputs.open_source(str(tmp_path), roberta=True)
