"""Vocabulary pruning: fewer rows, the same answers to every text of kept pieces."""

import pathlib
import shutil

import numpy as np
import pytest
import toys

from tfdistill import compress, errors, models
from tfdistill.data import vocab as vocabularies
from tfdistill.tokenization.reading import read_tokenizer, read_vocab

CORPUS = ("The film is good.", "It is bad, set an alarm for seven!", "not a good story")
# More rows than the vocabulary has tokens, as tables padded to a multiple.
CONFIG = toys.SHALLOW_STUDENT.replace(family="tinybert", vocab_size=120, max_positions=24)


@pytest.fixture(scope="module")
def model():
    return toys.classifier(CONFIG)


@pytest.fixture(scope="module")
def rich_vocab(toy_vocab_file, tmp_path_factory):
    """The toy vocabulary behind some unused entries, so that no id stays what it was."""
    tokens = read_vocab(toy_vocab_file)
    path = tmp_path_factory.mktemp("rich") / "vocab.txt"
    vocabularies.write_vocab([*(f"[unused{i}]" for i in range(7)), *tokens, "é", "##é"], path)
    return path


@pytest.fixture(scope="module")
def pruned(rich_vocab):
    model = toys.classifier(CONFIG.replace(pad_token_id=7))
    return model, compress.prune_vocabulary(model, rich_vocab, CORPUS)


def inputs(ids):
    ids = np.array([ids], np.int32)
    return {"input_ids": ids, "attention_mask": ids * 0 + 1, "token_type_ids": ids * 0}


def tokenizers(result, tmp_path):
    result.write_vocab(tmp_path / "vocab.txt")
    return result.tokenizer_before, read_tokenizer(tmp_path / "vocab.txt")


def test_texts_of_kept_pieces_keep_their_pieces_and_their_answers_bit_for_bit(pruned, tmp_path):
    model, result = pruned
    before, after = tokenizers(result, tmp_path)
    mixtures = ["seven films", "a bad alarm is not good!", "the story, an alarm", *CORPUS]

    compared = 0
    for text in mixtures:
        old, new = before.encode(text), after.encode(text)
        if before.unk_id in old or not set(old) <= set(result.old_ids):
            continue
        compared += 1
        assert [before.vocab[i] for i in old] == [after.vocab[i] for i in new]
        assert old != new, "the ids have moved"
        expected, received = model(inputs(old)).numpy(), result.model(inputs(new)).numpy()
        np.testing.assert_array_equal(expected, received)
    assert compared >= 5


def test_only_the_table_shrinks(pruned):
    model, result = pruned

    removed = CONFIG.vocab_size - len(result.tokenizer.vocab)
    assert result.model.count_params() == model.count_params() - removed * CONFIG.hidden_size
    assert models.config_of(result.model) == models.config_of(model).replace(
        vocab_size=len(result.tokenizer.vocab), pad_token_id=result.tokenizer.vocab.index("[PAD]")
    )
    assert result.num_before == CONFIG.vocab_size
    assert removed > 15


def test_what_is_kept_is_special_used_or_a_letter_and_rare_pieces_go_if_asked(
    pruned, rich_vocab, model
):
    _, result = pruned

    tokens = set(result.tokenizer.vocab)
    assert {*vocabularies.SPECIAL_TOKENS, "film", "alarm", "seven", ".", "!", "a", "##z"} <= tokens
    assert tokens.isdisjoint({"play", "##ing", "é", "##é", "[unused0]"})
    assert list(result.old_ids) == sorted(set(result.old_ids))
    often = compress.prune_vocabulary(model, rich_vocab, ["good good bad"], min_count=2)
    assert "good" in often.tokenizer.vocab and "bad" not in often.tokenizer.vocab


def test_where_there_is_room_the_first_that_texts_may_have_stay_too(rich_vocab, model):
    needed = compress.prune_vocabulary(model, rich_vocab, CORPUS)
    room = len(needed.tokenizer.vocab) + 3
    more = compress.prune_vocabulary(model, rich_vocab, CORPUS, num_tokens=room)
    fewer = compress.prune_vocabulary(model, rich_vocab, CORPUS, num_tokens=2)

    vocab = read_vocab(rich_vocab)
    assert vocab.index("[unused0]") < max(more.old_ids)  # it stands first, and no text has it
    rest = [index for index in range(len(vocab)) if index not in needed.old_ids]
    rest = [index for index in rest if not vocab[index].startswith("[unused")]
    # nothing else spells a letter
    first = sorted(rest, key=lambda index: (len(vocab[index]) > 1, index))
    assert len(vocab[first[0]]) == 1 < len(vocab[first[2]])
    assert sorted({*more.old_ids} - {*needed.old_ids}) == sorted(first[:3])
    assert list(more.old_ids) == sorted(more.old_ids)
    assert fewer.tokenizer.vocab == needed.tokenizer.vocab  # what the corpus needs stays


def test_coverage_counts_texts_that_changed_and_unknown_pieces(pruned):
    _, result = pruned
    texts = [*CORPUS, "playing", "é", "日"]

    unknown = result.tokenizer_before.pieces(texts)[1].sum()
    coverage = result.coverage(texts)

    # é loses its accent; the ideograph is unknown to both; "playing" is spelt in 7 pieces, not 2.
    assert coverage == compress.VocabularyCoverage(6, 1, unknown + 5, unknown, 1, 1)
    with pytest.raises(errors.DataError, match="texts: expected at least one"):
        result.coverage([])


def test_letters_of_the_corpus_beyond_ascii_are_kept_and_others_become_unknown(model, rich_vocab):
    cased = read_tokenizer(rich_vocab, False)
    assert {"é", "##é"} <= {*compress.prune_vocabulary(model, cased, ["é is"]).tokenizer.vocab}
    coverage = compress.prune_vocabulary(model, cased, CORPUS).coverage(["é is", "is"])
    assert (coverage.num_changed, coverage.num_unknown, coverage.num_unknown_before) == (1, 1, 0)


def test_a_corpus_may_be_a_file_and_a_cased_vocabulary_stays_one_where_nobody_says_so(
    pruned, tmp_path, model, rich_vocab
):
    (tmp_path / "corpus.txt").write_text("\n".join(CORPUS), encoding="utf-8-sig")
    result = compress.prune_vocabulary(model, rich_vocab, tmp_path / "corpus.txt")
    assert result.tokenizer.vocab == pruned[1].tokenizer.vocab
    path = shutil.copy(rich_vocab, tmp_path / "vocab.txt")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert compress.prune_vocabulary(model, path, CORPUS).tokenizer.lower_case is False


MOBILEBERT = toys.MOBILEBERT.replace(vocab_size=120, max_positions=24)
DISTILBERT = CONFIG.replace(family="distilbert", pooler=False, type_vocab_size=0)
FAMILIES = {
    "distilbert": lambda: models.build_token_classifier(DISTILBERT, 3),
    "mobilebert": lambda: models.build_span_classifier(MOBILEBERT),
    "bilstm": lambda: models.build_classifier(toys.BILSTM.replace(vocab_size=120), 3),
    "masked_lm": lambda: models.build_masked_lm(MOBILEBERT),
}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_keeps_its_answers(family, rich_vocab, tmp_path):
    model = toys.randomise(FAMILIES[family]())
    result = compress.prune_vocabulary(model, rich_vocab, CORPUS)
    before, after = tokenizers(result, tmp_path)

    def answer(model, tokenizer):
        features = inputs(tokenizer.encode(CORPUS[1]))
        if family == "masked_lm":
            features["prediction_mask"] = features["attention_mask"]
            return model(features)["mlm_logits"].numpy()
        return model({name: features[name] for name in model.input_names}).numpy()

    expected, received = answer(model, before), answer(result.model, after)
    if family == "masked_lm":
        expected = expected[:, result.old_ids]  # the kept words are guessed as before
        np.testing.assert_allclose(expected, received, rtol=1e-5)  # products of another width
    else:
        np.testing.assert_array_equal(expected, received)


@pytest.mark.parametrize(
    ("rows", "corpus", "options", "error", "message"),
    [
        (120, ["", "  "], {}, errors.DataError, "corpus: expected text, a line each"),
        (120, pathlib.Path("absent.txt"), {}, errors.DataError, "absent.txt: expected a text"),
        (20, CORPUS, {}, errors.VocabularyError, "20"),
        (120, CORPUS, {"min_count": 0}, errors.ConfigError, "min_count: expected at least 1"),
    ],
)
def test_what_no_vocabulary_can_be_pruned_by_is_refused(
    rows, corpus, options, error, message, rich_vocab
):
    model = models.build_classifier(CONFIG.replace(vocab_size=rows), 2)
    with pytest.raises(error, match=message):
        compress.prune_vocabulary(model, rich_vocab, corpus, **options)
