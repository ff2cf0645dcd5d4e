"""Faults planted in a Hugging Face folder while it is written: none is kept."""

import json

import numpy as np
import pytest
import safetensors.numpy
import toys
import transformers

from tfdistill import errors, tokenizer_json, weights
from tfdistill.data import vocab
from tfdistill.weights import checkpoint, folder_checks, hf_config, save

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "who", "was", "the", "first", "?", "a"]
CONFIG = toys.STUDENT.replace(vocab_size=len(TOKENS), max_positions=16)
LABELS = ("bad", "good", "neither")
TEXTS = ["the first was a", "who was a ?"]
WORDS = "bert.embeddings.word_embeddings.weight"


@pytest.fixture
def vocab_file(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("\n".join(TOKENS) + "\n")
    return path


def exchanged(values, first, second):
    order = np.arange(len(values))
    order[[first, second]] = second, first
    return values[order]


def tensor_fault(change):
    def plant(patch):
        save = safetensors.numpy.save_file

        def save_changed(tensors, path, **options):
            tensors = {key: value.copy() for key, value in tensors.items()}
            change(tensors)
            save(tensors, path, **options)

        patch.setattr("safetensors.numpy.save_file", save_changed)

    return plant


def json_fault(file, change):
    def plant(patch):
        write = save._write_json

        def write_changed(path, value):
            value = json.loads(json.dumps(value))
            if path.name == file:
                change(value)
            write(path, value)

        patch.setattr(save, "_write_json", write_changed)

    return plant


def exchange_tensors(tensors):
    first, second = (f"bert.encoder.layer.{i}.attention.self.query.weight" for i in (0, 1))
    tensors[first], tensors[second] = tensors[second], tensors[first]


def exchange_labels(config):
    table = config["id2label"]
    table["0"], table["1"] = table["1"], table["0"]
    config["label2id"] = {name: int(index) for index, name in table.items()}


def only_one_table(config):
    config["label2id"] = {"bad": 1, "good": 0, "neither": 2}


def other_vocabulary(patch):
    write = vocab.write_vocab
    patch.setattr(
        vocab, "write_vocab", lambda tokens, path: write(exchanged(np.array(tokens), 5, 6), path)
    )


FAULTS = {
    "a number of a word": tensor_fault(lambda t: t[WORDS].__setitem__((6, 0), 0.5)),
    "a bias lost": tensor_fault(lambda t: t["classifier.bias"].fill(0)),
    "a matrix scaled": tensor_fault(
        lambda t: np.multiply(t[k := "classifier.weight"], 1.01, out=t[k])
    ),
    "a matrix transposed": tensor_fault(
        lambda t: t.update({k: t[k].T.copy() for k in ("bert.pooler.dense.weight",)})
    ),
    "two layers exchanged": tensor_fault(exchange_tensors),
    "two outputs exchanged": tensor_fault(
        lambda t: t.update({k: exchanged(t[k], 0, 1) for k in ("classifier.weight",)})
    ),
    "eps": json_fault("config.json", lambda c: c.update(layer_norm_eps=1e-6)),
    "activation": json_fault("config.json", lambda c: c.update(hidden_act="gelu_new")),
    "heads": json_fault("config.json", lambda c: c.update(num_attention_heads=4)),
    "labels exchanged": json_fault("config.json", exchange_labels),
    "labels exchanged in one table": json_fault("config.json", only_one_table),
    "lower-casing of tokenizer_config.json": json_fault(
        "tokenizer_config.json", lambda c: c.update(do_lower_case=False)
    ),
    "length of tokenizer_config.json": json_fault(
        "tokenizer_config.json", lambda c: c.update(model_max_length=8)
    ),
    "vocabulary lines of vocab.txt exchanged": other_vocabulary,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_not_written(fault, vocab_file, tmp_path, monkeypatch):
    model = toys.classifier(CONFIG, 3)
    FAULTS[fault](monkeypatch)
    with pytest.raises((errors.ParityError, errors.WeightsError, errors.VocabularyError)):
        weights.save_hf(model, tmp_path / "hf", labels=LABELS, vocab_file=vocab_file, texts=TEXTS)
    assert not (tmp_path / "hf").exists()


@pytest.mark.parametrize("lower_case", [True, False])
def test_a_tokenizer_json_with_another_vocabulary_or_case_is_not_written(
    lower_case, vocab_file, tmp_path, monkeypatch
):
    build = tokenizer_json.build_tokenizer

    def other(tokens, *, lower_case):
        if lower_case:
            return build(list(exchanged(np.array(tokens), 5, 6)), lower_case=True)
        return build(tokens, lower_case=True)

    monkeypatch.setattr(tokenizer_json, "build_tokenizer", other)
    with pytest.raises((errors.ParityError, errors.WeightsError, errors.VocabularyError)):
        weights.save_hf(
            toys.classifier(CONFIG, 3),
            tmp_path / "hf",
            vocab_file=vocab_file,
            lower_case=lower_case,
        )
    assert not (tmp_path / "hf").exists()


def test_a_refusal_names_the_tensor_and_the_number(vocab_file, tmp_path, monkeypatch):
    FAULTS["a number of a word"](monkeypatch)
    with pytest.raises(errors.ParityError, match=r"word_embeddings.weight, 1 of \d+.*\(6, 0\)"):
        weights.save_hf(toys.classifier(CONFIG, 3), tmp_path / "hf", vocab_file=vocab_file)


def test_the_head_of_tinybert_is_marked_as_one_that_only_tfdistill_reads(tmp_path):
    model = toys.classifier(CONFIG.replace(family="tinybert"), 2)
    weights.save_hf(model, tmp_path / "hf")
    written = json.loads((tmp_path / "hf" / checkpoint.CONFIG_FILE).read_text())
    assert "ReLU" in written[hf_config.BLOCK]["only_for_tfdistill"]
    assert weights.load_classifier(tmp_path / "hf").config.family == "tinybert"


def test_transformers_has_no_such_head(tmp_path):
    model = toys.classifier(CONFIG.replace(family="tinybert"), 2)
    with pytest.raises(errors.WeightsError, match="ReLU"):
        weights.save_hf(model, tmp_path / "hf", for_transformers=True)
    assert not (tmp_path / "hf").exists()


@pytest.mark.skipif(not transformers.is_torch_available(), reason="needs PyTorch")
def test_transformers_answers_the_texts_and_its_fault_is_told(vocab_file, tmp_path, monkeypatch):
    model = toys.classifier(CONFIG, 3)
    arguments = {"vocab_file": vocab_file, "texts": TEXTS, "for_transformers": True}
    weights.save_hf(model, tmp_path / "hf", **arguments)
    answer = folder_checks.run
    monkeypatch.setattr(
        folder_checks,
        "run",
        lambda network, features: {"logits": answer(network, features)["logits"] * 1.01},
    )
    with pytest.raises(errors.ParityError, match="answers of transformers"):
        weights.save_hf(model, tmp_path / "other", **arguments)


def test_every_check_has_a_name_of_its_own():
    names = [check.name for check in folder_checks.CHECKS]
    assert len(set(names)) == len(names)
    assert {need for check in folder_checks.CHECKS for need in check.needs} <= set(names)
