"""Texts that are too long: every tokenizer keeps the same tokens of them."""

import numpy as np
import pytest
import tensorflow as tf

from export.targets import text_graph
from tfdistill.tasks import encoded
from tfdistill.tokenization import library as library_tokenizer
from tfdistill.tokenization.reading import read_tokenizer

WORDS = ["good", "bad", "film", "was", "it", "not", "zzqx", "storyline"]


def naive(tokenizer, text, pair, max_length, truncation):
    """The ids of one text or pair, cut token after token; and their types."""

    def cut(ids, count):
        if truncation == "end":
            return ids[:count]
        first, last = (count + 1) // 2, count // 2
        return ids[:first] + (ids[-last:] if last else [])

    _, _, cls_id, sep_id, _ = tokenizer.special_ids
    first = tokenizer.pieces([text])[0].tolist()
    if pair is None:
        count = min(len(first), max_length - 2)
        ids = first if count == len(first) else cut(first, count)
        return [cls_id, *ids, sep_id], [0] * (len(ids) + 2)
    second = tokenizer.pieces([pair])[0].tolist()
    sizes = [len(first), len(second)]
    while sum(sizes) > max_length - 3:
        # The longer one loses a token; of equal ones the first, whose half is the smaller one.
        sizes[0 if sizes[0] >= sizes[1] else 1] -= 1
    if (max_length - 3) % 2 and min(len(first), len(second)) > (max_length - 3) // 2:
        # Both are cut: the odd token belongs to the text that was the longer one.
        half = (max_length - 3) // 2
        sizes = [half + 1, half] if len(first) > len(second) else [half, half + 1]
    before = first if sizes[0] == len(first) else cut(first, sizes[0])
    after = second if sizes[1] == len(second) else cut(second, sizes[1])
    ids = [cls_id, *before, sep_id, *after, sep_id]
    return ids, [0] * (len(before) + 2) + [1] * (len(after) + 1)


def texts_of_lengths(rng, lengths):
    return [" ".join(rng.choice(WORDS, length)) for length in lengths]


@pytest.fixture(params=["end", "middle"])
def tokenizer(request, toy_vocab_file):
    return read_tokenizer(toy_vocab_file, truncation=request.param)


@pytest.mark.slow
@pytest.mark.parametrize("max_length", [3, 4, 5, 9, 16, 33])
def test_bulk_single_library_and_graph_keep_the_tokens_of_a_naive_loop(tokenizer, max_length, rng):
    lengths = [0, 0, 1, max_length - 3, max_length - 2, max_length - 1, max_length, 3 * max_length]
    texts = texts_of_lengths(rng, [*lengths, *rng.integers(0, 3 * max_length, 60)])
    pairs = ["", *texts_of_lengths(rng, rng.integers(0, 3 * max_length, len(texts) - 1))]
    pairs[3:40:5], pairs[7] = [""] * 8, " "  # without a token, too
    bulk = tokenizer.encode_batch(texts, pairs, max_length)
    library = tokenizer.fast.encode_batch(texts, pairs, max_length)
    both = tf.constant(texts), tf.constant(pairs)
    graph = text_graph.encode(tokenizer, *both, max_length, paired=tf.constant(True))
    mask = graph["attention_mask"].numpy() > 0
    for i, (text, pair) in enumerate(zip(texts, pairs, strict=True)):
        ids, types = naive(tokenizer, text, pair, max_length, tokenizer.truncation)
        assert tokenizer.encode(text, pair, max_length) == ids
        assert tokenizer.fast.encode_typed(text, pair, max_length) == (ids, types)
        for rows in (bulk, library):
            assert (rows.row(i).tolist(), rows.row_types(i).tolist()) == (ids, types)
        assert graph["input_ids"].numpy()[i][mask[i]].tolist() == ids
        assert graph["token_type_ids"].numpy()[i][mask[i]].tolist() == types
    alone = tokenizer.encode_batch(texts, None, max_length)
    for i, text in enumerate(texts):
        ids, _ = naive(tokenizer, text, None, max_length, tokenizer.truncation)
        assert alone.row(i).tolist() == ids == tokenizer.encode(text, max_length=max_length)


def test_a_text_cut_in_its_middle_keeps_its_beginning_and_its_end(toy_vocab_file):
    tokenizer = read_tokenizer(toy_vocab_file, truncation="middle")
    beginning, end = "bad bad good film", "not it was bad"
    ids = tokenizer.encode(f"{beginning} {'it ' * 50} {end}", max_length=10)
    assert ids == tokenizer.encode(f"{beginning} {end}", max_length=10)
    assert len(ids) == 10


def test_an_odd_token_belongs_to_the_head():
    assert encoded.heads_of(np.arange(6), "middle").tolist() == [0, 1, 1, 2, 2, 3]
    assert encoded.heads_of(np.arange(6), "end").tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("max_length", [6, 7, 12])
def test_a_roberta_s_text_keeps_all_its_special_tokens(max_length):
    """`<s> text </s>` and `<s> text </s></s> pair </s>`: two special tokens, or four."""
    import tokenizers
    from tokenizers import models, pre_tokenizers, processors

    words = ["<s>", "<pad>", "</s>", *"abcdefghijklmnop"]
    library = tokenizers.Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer = library_tokenizer.LibraryTokenizer(
        library, pad_id=1, num_types=1, truncation="middle"
    )
    text = " ".join("abcdefghijklmnop")
    room = max_length - 2
    ids = list(range(3, 19))
    expected = [0, *ids[: room - room // 2], *ids[16 - room // 2 :], 2]
    assert tokenizer.encode(text, max_length=max_length) == expected
    room = max_length - 4
    first, second = room // 2, room - room // 2  # the second counts as the longer
    expected = [0, *ids[: first - first // 2], *ids[16 - first // 2 :], 2, 2]
    expected += [*ids[: second - second // 2], *ids[16 - second // 2 :], 2]
    assert tokenizer.encode(text, text, max_length=max_length) == expected
    assert tokenizer.encode("a b", max_length=max_length) == [0, 3, 4, 2]
