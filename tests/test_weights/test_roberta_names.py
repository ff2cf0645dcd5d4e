"""Encoders with XLM-RoBERTa's tokenizer, BertModel and XLM-R, against transformers, both ways."""

import re

import numpy as np
import pytest
import safetensors.numpy
import toys
import transformers
import unigrams
from test_weights.edits import edit, edit_config
from test_weights.references import TOLERANCE, in_transformers, save_random

from tfdistill import errors, models, weights
from tfdistill.weights import checkpoint

TEXTS = ["the good film", "", "ＴＨＥ ﬁlm, nicht gut!", "अच्छा фильм <mask> " + "dull " * 30, "§ a"]
PAIRS = ["is it?", "schlecht", "", "a " * 40, "the film was bad"]
LENGTH = 24
SIZES = {
    **{"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "num_labels": 3},
    **{"intermediate_size": 24, "layer_norm_eps": 1e-3},
}
TOKENIZER = unigrams.unigram()
ROWS = TOKENIZER.vocab_size + 35  # as multilingual-e5-small has more rows than pieces
XLM_R = {"max_position_embeddings": 2 + LENGTH, "type_vocab_size": 1, "vocab_size": ROWS}
BERT = {"max_position_embeddings": LENGTH, "pad_token_id": 0, "vocab_size": ROWS}
CASES = {  # the class, and the head that it has here
    "bert": ("BertModel", "none"),
    "bert sequence": ("BertForSequenceClassification", "sequence"),
    "xlm-r": ("XLMRobertaModel", "none"),
    "xlm-r sequence": ("XLMRobertaForSequenceClassification", "sequence"),
    "xlm-r token": ("XLMRobertaForTokenClassification", "token"),
    "xlm-r span": ("XLMRobertaForQuestionAnswering", "span"),
    "xlm-r masked_lm": ("XLMRobertaForMaskedLM", "masked_lm"),
}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """The toy tokenizer as transformers has it."""
    folder = tmp_path_factory.mktemp("tokenizer")
    TOKENIZER.save_files(folder)
    opened = transformers.XLMRobertaTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))
    opened.model_max_length = LENGTH
    return opened


def saved(name, tokenizer, folder, **changes):
    """A random model that transformers saved, with its tokenizer."""
    family, sizes = ("XLMRoberta", XLM_R) if name.startswith("XLM") else ("Bert", BERT)
    config = getattr(transformers, f"{family}Config")(**{**SIZES, **sizes, **changes})
    model = getattr(transformers, f"TF{name}")(config)
    save_random(model, tokenizer, folder)
    return model


@pytest.fixture(scope="module")
def classifier(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    saved("XLMRobertaForSequenceClassification", tokenizer, folder)
    return folder


def answers(model, kind, tokenizer, *, paired):
    """What transformers answers to a padded batch, without padding, and the features."""
    features = tokenizer(
        TEXTS,
        PAIRS if paired else None,
        truncation=True,
        max_length=LENGTH,
        padding=True,
        return_tensors="np",
    )
    arrays = {name: np.asarray(features[name]) for name in ("input_ids", "attention_mask")}
    outputs = model(arrays)
    if kind == "span":
        return np.stack([outputs.start_logits, outputs.end_logits], -1), arrays
    return np.asarray(outputs[0]), arrays


def ours(model, kind, arrays):
    features = {**arrays, "token_type_ids": np.zeros_like(arrays["input_ids"])}
    if kind == "masked_lm":
        features["prediction_mask"] = arrays["attention_mask"]
    features = {name: features[name] for name in model.input_names}
    if kind == "none":
        return models.taps(model)(features)["hidden_states"][-1].numpy()
    outputs = model(features)
    return np.asarray(outputs["mlm_logits"] if kind == "masked_lm" else outputs)


def check_equal(model, published, kind, tokenizer, *, rows=None):
    for paired in (False, True):
        expected, arrays = answers(published, kind, tokenizer, paired=paired)
        received = ours(model, kind, arrays)
        if expected.ndim > 2:
            real = arrays["attention_mask"] == 1
            expected = expected[real][..., :rows]
            received = received if kind == "masked_lm" else received[real]
        np.testing.assert_allclose(received, expected, atol=TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_answers_are_those_of_transformers_both_ways(case, tokenizer, tmp_path):
    name, kind = CASES[case]
    outputs = {"num_labels": 2} if kind == "span" else {}
    published = saved(name, tokenizer, tmp_path / "theirs", **outputs)
    loaded = weights.load_model(tmp_path / "theirs", kind)
    rows = TOKENIZER.vocab_size
    check_equal(
        loaded.model, published, kind, tokenizer, rows=rows if kind == "masked_lm" else None
    )
    assert (loaded.config.family, loaded.config.vocab_size) == ("bert", rows)
    assert (loaded.config.pad_token_id, loaded.config.max_positions) == (1, LENGTH)
    table = "embeddings.word_embeddings.weight"
    assert f"rows {rows} to {ROWS - 1} of {table}" in str(loaded.report)
    assert not loaded.report.fresh

    weights.save_hf(loaded.model, tmp_path / "ours", tokenizer=loaded.tokenizer, texts=TEXTS)
    again = in_transformers(tmp_path / "ours")
    assert again.config.model_type == "bert"
    opened = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert opened(TEXTS, PAIRS)["input_ids"] == tokenizer(TEXTS, PAIRS)["input_ids"]
    check_equal(loaded.model, again, kind, opened)
    assert not weights.load_model(tmp_path / "ours", kind).report.fresh


def copied(folder, target):
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    return target


@pytest.fixture
def folder(classifier, tmp_path):
    """The same in the names of PyTorch, with a pooler that nothing reads."""
    tensors, _, _ = checkpoint.read_parts(classifier)
    tensors["pooler.dense.weight"] = np.zeros((16, 16), np.float32)
    named = {
        key if key.startswith("classifier.") else f"roberta.{key}": np.ascontiguousarray(tensor)
        for key, tensor in tensors.items()
    }
    copied(classifier, tmp_path)
    safetensors.numpy.save_file(named, tmp_path / "model.safetensors", metadata={"format": "pt"})
    return tmp_path


def test_the_names_of_pytorch_give_the_same_model(classifier, folder):
    """As those of TensorFlow, which the library here writes."""
    first, second = map(weights.load_classifier, (classifier, folder))
    toys.check_equal(second.model.get_weights(), first.model.get_weights())
    assert "pooler.dense.weight" in second.report.ignored


def type_second_texts(folder):
    path = folder / "tokenizer.json"
    typed = re.sub(r'("id":\s*"B",\s*"type_id":\s*)0', r"\g<1>1", path.read_text())
    path.write_text(typed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (type_second_texts, "of other types"),
        (lambda f: edit_config(f, pad_token_id=0), "pad_token_id of .*: expected 1, as its tok"),
        (lambda f: edit_config(f, pad_token_id=99), "a table that begins behind"),
        (lambda f: edit_config(f, max_position_embeddings=30), "wrong shape: embeddings.position"),
        (lambda f: edit_config(f, vocab_size=ROWS + 1), "wrong shape: embeddings.word"),
        (lambda f: edit_config(f, vocab_size=9), "at most 9 tokens, the rows"),
        (lambda f: edit(f, drop("layer.0.output.dense.bias")), "missing: enc"),
        (
            lambda f: (f / "tokenizer.json").unlink(),
            r"tokenizer\.json, received no such file.*save",
        ),
    ],
)
def test_what_does_not_fit_is_refused(change, message, folder):
    change(folder)
    with pytest.raises((errors.WeightsError, errors.VocabularyError), match=message):
        weights.load_classifier(folder)


def drop(ending):
    return lambda tensors: {k: v for k, v in tensors.items() if not k.endswith(ending)}


def test_a_masked_lm_of_another_activation_has_no_head_here(folder):
    """Its head has a GELU in transformers whatever the networks have."""
    edit(folder, lambda tensors: tensors.update({"lm_head.bias": np.zeros(ROWS, np.float32)}))
    edit_config(folder, hidden_act="relu")
    with pytest.raises(errors.WeightsError, match="expected a masked-LM head"):
        weights.load_masked_lm(folder)
