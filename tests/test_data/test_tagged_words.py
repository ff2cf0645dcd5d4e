"""Where the tags of running text are learnt and answered."""

import numpy as np
import pytest
import unigrams

from tfdistill.data import tagged_words
from tfdistill.tasks import decoding
from tfdistill.tasks.words import find_words
from tfdistill.tokenization.reading import read_tokenizer

LABELS = ("O", "B-X", "I-X", "B-Y", "I-Y")


def encode(tokenizer, texts, tags=None, max_length=20):
    offsets = [find_words(text) for text in texts]
    return tagged_words.encode_words(texts, offsets, tags, tokenizer, max_length)


def test_a_piece_answers_for_all_words_whose_first_characters_it_holds(tokenizer):
    text = ".playing♥ 中国 good\u00ad♥film\u200d!"
    words = [text[start:end] for start, end in find_words(text)]
    assert words == [".", "playing", "♥", "中", "国", "good", "♥", "film\u200d", "!"]
    encoded = encode(tokenizer, [text], [np.arange(9)])
    tokens = encoded.word_tokens
    answers = zip(encoded.ids[tokens], encoded.word_counts[tokens], strict=True)
    pieces = [(tokenizer.vocab[piece], int(count)) for piece, count in answers]
    # "playing♥" and "good♥film" are unknown as a whole: one piece for all of their words.
    assert pieces == [
        (".", 1),
        ("[UNK]", 2),
        ("[UNK]", 1),
        ("[UNK]", 1),
        ("[UNK]", 3),
        ("!", 1),
    ]
    assert encoded.labels[encoded.word_tokens].tolist() == [0, 1, 3, 4, 5, 8]
    assert encoded.word_labels.tolist() == list(range(9))
    part = encoded.select([0, 0])
    assert part.word_labels.tolist() == [*range(9), *range(9)]


def test_a_word_that_the_tokenizer_drops_is_unknown_where_it_stands(tokenizer):
    encoded = encode(tokenizer, ["a \u0301b", "\u0301"])  # accents are stripped
    pieces = [tokenizer.vocab[piece] for piece in encoded.ids]
    assert pieces == ["[CLS]", "a", "[UNK]", "b", "[SEP]", "[CLS]", "[UNK]", "[SEP]"]
    assert encoded.word_counts.tolist() == [0, 1, 1, 1, 0, 0, 1, 0]


def test_words_of_pieces_without_blanks_are_tagged_by_unigrams():
    tokenizer = unigrams.unigram()
    encoded = encode(tokenizer, ["東京 good, fun!", " \r\n", ""])
    assert encoded.sources.tolist() == [0, 1, 2] and encoded.lengths.tolist()[1:] == [2, 2]
    pieces = [tokenizer.vocab[piece] for piece in encoded.ids[encoded.word_tokens]]
    assert pieces == ["▁", "<unk>", "▁good", ",", "▁fun", "!"]
    assert encoded.word_counts.sum() == 6 and encoded.labels is None


FILLING = "the film was (not) very good, and they play. "
NAME = "anna q77 li"
SIZES = [  # characters, most tokens
    (300, 16),
    pytest.param(8700, 128, marks=pytest.mark.thorough),
]


@pytest.fixture(scope="module")
def letters(tmp_path_factory):
    """WordPiece that spells everything and knows the parts of the name."""
    listed = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "anna", "li", "film", "##lay"]
    spelt = [mark + chr(point) for point in range(33, 127) for mark in ("", "##")]
    path = tmp_path_factory.mktemp("letters") / "vocab.txt"
    path.write_text("\n".join(dict.fromkeys([*listed, *map(str.lower, spelt)])) + "\n")
    return read_tokenizer(path)


def oracle(tokenizer, encoded, size):
    """Right logits of what a window shows well; nonsense where it shows less than the rule."""
    ids = {token: number for number, token in enumerate(tokenizer.vocab)}
    of_piece = np.zeros(tokenizer.vocab_size, np.int64)
    of_piece[[ids["q"], ids["li"]]], of_piece[ids["anna"]] = 2, 1
    of_piece[ids["##7"]] = 2
    logits = np.zeros((encoded.num_tokens, len(LABELS)))
    rows = np.repeat(np.arange(len(encoded)), encoded.lengths)
    inside = np.arange(encoded.num_tokens) - encoded.offsets[rows] - 1
    left, right = inside, encoded.lengths[rows] - 3 - inside
    first = np.append(True, np.diff(encoded.sources) != 0)[rows]
    last = np.append(np.diff(encoded.sources) != 0, True)[rows]
    least = size // 4 - 1
    well = (first | (left >= least)) & (last | (right >= least))
    logits[np.arange(len(rows)), np.where(well, of_piece[encoded.ids], 4)] = 5.0
    return logits


@pytest.mark.parametrize(("characters", "max_length"), SIZES)
def test_an_entity_at_any_position_of_a_long_text_is_found_whole(letters, characters, max_length):
    filling = (FILLING * (characters // len(FILLING) + 1))[: characters - len(NAME) - 2]
    rules = decoding.allowed(LABELS)
    positions = np.arange(len(filling) + 1)
    for block in np.array_split(positions, -(-len(positions) // 64)):
        texts = [f"{filling[:place]}({NAME}){filling[place:]}" for place in block]
        encoded = encode(letters, texts, max_length=max_length)
        assert encoded.lengths.max() == max_length and len(encoded) > 4 * len(texts)
        logits = oracle(letters, encoded, max_length - 2)
        tags = decoding.decode_words(logits, encoded, LABELS)
        part = decoding.entities(tags.scores, tags.tags, rules, tags.bounds, tags.log_probabilities)
        assert len(part.firsts) == len(texts)  # none lost, none halved
        words = np.append(0, np.cumsum(tags.counts))
        for number, place in enumerate(block):
            offsets = find_words(texts[number])
            first, end = words[part.firsts[number]], words[part.ends[number]]
            begin = tags.word_bounds[number]
            assert offsets[first - begin, 0] == place + 1
            assert offsets[end - begin - 1, 1] == place + 1 + len(NAME)
            assert end - first == 4 and tags.tags[part.firsts[number]] == 1
            assert tags.word_bounds[number + 1] - begin == len(offsets)
