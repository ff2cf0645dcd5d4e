"""Faults planted in a Hugging Face folder while it is written: none is kept."""

import json

import planted_folder
import pytest
import toys
import transformers

from tfdistill import errors, weights
from tfdistill.tokenization.reading import read_tokenizer
from tfdistill.weights import checkpoint, folder_checks, hf_config

pytestmark = pytest.mark.slow

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "who", "was", "the", "first", "?", "a"]
CONFIG = toys.STUDENT.replace(vocab_size=len(TOKENS), max_positions=16)
LABELS = ("bad", "good", "neither")
TEXTS = ["the first was a", "who was a ?"]


@pytest.fixture
def vocab_file(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("\n".join(TOKENS) + "\n")
    return path


@pytest.mark.parametrize("fault", planted_folder.FAULTS)
def test_a_planted_fault_is_not_written(fault, vocab_file, tmp_path):
    model, planted = toys.classifier(CONFIG, 3), planted_folder.FAULTS[fault]
    refused = (errors.ParityError, errors.WeightsError, errors.VocabularyError)
    with planted.planted(), pytest.raises(refused, match=planted.message):
        weights.save_hf(model, tmp_path / "hf", labels=LABELS, tokenizer=vocab_file, texts=TEXTS)
    assert not (tmp_path / "hf").exists()


def test_a_tokenizer_json_that_lower_cases_is_not_written_for_a_cased_model(vocab_file, tmp_path):
    planted = planted_folder.FAULTS["lower-casing of tokenizer.json"]
    refused = (errors.ParityError, errors.WeightsError, errors.VocabularyError)
    with planted.planted(), pytest.raises(refused):
        weights.save_hf(
            toys.classifier(CONFIG, 3),
            tmp_path / "hf",
            tokenizer=read_tokenizer(vocab_file, lower_case=False),
        )
    assert not (tmp_path / "hf").exists()


def test_the_head_of_tinybert_is_marked_as_one_that_only_tfdistill_reads(tmp_path):
    model = toys.classifier(CONFIG.replace(family="tinybert"), 2)
    with pytest.raises(errors.WeightsError, match="ReLU"):
        weights.save_hf(model, tmp_path / "hf", for_transformers=True)
    assert not (tmp_path / "hf").exists()
    model = toys.classifier(CONFIG.replace(family="tinybert"), 2)
    weights.save_hf(model, tmp_path / "hf")
    written = json.loads((tmp_path / "hf" / checkpoint.CONFIG_FILE).read_text())
    assert "ReLU" in written[hf_config.BLOCK]["only_for_tfdistill"]
    assert weights.load_classifier(tmp_path / "hf").config.family == "tinybert"


@pytest.mark.skipif(not transformers.is_torch_available(), reason="needs PyTorch")
def test_transformers_answers_the_texts_and_its_fault_is_told(vocab_file, tmp_path, monkeypatch):
    model = toys.classifier(CONFIG, 3)
    arguments = {"tokenizer": vocab_file, "texts": TEXTS, "for_transformers": True}
    weights.save_hf(model, tmp_path / "hf", **arguments)
    answer = folder_checks.run
    monkeypatch.setattr(
        folder_checks,
        "run",
        lambda network, features: answer(network, features) * 1.01,
    )
    with pytest.raises(errors.ParityError, match="answers of transformers"):
        weights.save_hf(model, tmp_path / "other", **arguments)


def test_every_check_has_a_name_of_its_own():
    names = [check.name for check in folder_checks.CHECKS]
    assert len(set(names)) == len(names)
    assert {need for check in folder_checks.CHECKS for need in check.needs} <= set(names)
