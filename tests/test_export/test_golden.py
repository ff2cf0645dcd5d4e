import numpy as np
import pytest

from export.checking import golden
from export.model import inputs
from tfdistill import errors
from tfdistill.data.batches import encode_examples
from tfdistill.tasks import Examples
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tokenization.reading import read_tokenizer


@pytest.fixture
def examples(toy):
    texts = ["w1 w2", "W3", " ".join(["w4"] * 20), "w5 unknown"]
    return Examples(toy.task, texts, ["", "w6", "", ""], None)


@pytest.mark.parametrize(("length", "is_whole"), [(16, True), (8, False)])
def test_a_text_is_given_where_a_device_gets_its_ids(length, is_whole, toy, examples):
    tokenizer = read_tokenizer(toy.vocab_file)
    texts = golden.texts_of(encode_examples(examples, tokenizer, length), examples, tokenizer, 16)
    assert texts.texts == ("w1 w2", "W3", examples.texts[2] if is_whole else None, "w5 unknown")
    assert texts.pairs == ("", "w6", "" if is_whole else None, "")


def test_without_texts_or_tokenizer_there_are_none_and_of_another_vocabulary_a_refusal(
    toy, examples, toy_vocab_file
):
    tokenizer = read_tokenizer(toy.vocab_file)
    encoded = encode_examples(examples, tokenizer, 16)
    for arguments in ((None, tokenizer), (examples, None)):
        assert golden.texts_of(encoded, *arguments, 16).texts == (None,) * 4
    with pytest.raises(errors.DataError, match="Check that tokenizer is"):
        golden.texts_of(encoded, examples, read_tokenizer(toy_vocab_file), 16)


def test_the_shortest_example_is_golden_whatever_the_lengths_are():
    sizes = np.arange(40, 1, -1)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    ids = np.ones(offsets[-1], np.int32)
    sources = np.minimum(np.arange(39) // 31, 1)  # two texts, of 31 and of 8 examples
    encoded = EncodedExamples(ids, offsets, np.zeros(len(ids), np.uint8), sources=sources)
    for lengths in (range(2, 41), (2, 40), (2, *range(8, 41))):
        chosen = inputs.probes(encoded, lengths)
        assert encoded.lengths[chosen].min() == 2
        assert encoded.lengths[inputs.whole_texts(encoded, chosen)].min() == 2


def test_an_example_names_the_shortest_signature_that_holds_it(toy, examples):
    tokenizer = read_tokenizer(toy.vocab_file)
    encoded = encode_examples(examples, tokenizer, 16)
    texts = golden.texts_of(encoded, examples, tokenizer, 16)
    logits = np.arange(8.0).reshape(4, 2)
    content = golden.golden(encoded, texts, (5, 8, 16), logits, logits + 0.5)
    rows = content["examples"]
    sizes = [(len(row["input_ids"]), row["signature"]) for row in rows]
    assert sizes == [(5, "len5"), (5, "len5"), (16, "len16"), (5, "len5")]
    facts = [rows[1][name] for name in ("token_type_ids", "logits", "outputs")]
    assert facts == [[0, 0, 0, 1, 1], [2.0, 3.0], [2.5, 3.5]]
