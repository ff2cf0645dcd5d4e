import pytest

from tfdistill import errors
from tfdistill.data import corpus, textspans


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "A.CSV", "a.jsonl", "a.parquet", "a.xlsx"])
def test_a_table_is_no_corpus(name, tmp_path):
    path = write(tmp_path / name, "text,label\ngood,yes\n")
    for read in (corpus.documents, lambda paths: textspans.plan_spans(paths, 100)):
        with pytest.raises(errors.DataError, match="expected plain text, received a table"):
            list(read([path]))


def body(encoded, index, tokenizer):
    """Ids of an example without [CLS] and [SEP]."""
    special = (tokenizer.cls_id, tokenizer.sep_id)
    return [token for token in encoded.row(index).tolist() if token not in special]


def pieces(tokenizer, *texts):
    return [token for text in texts for token in tokenizer.encode(text, max_length=10**6)[1:-1]]


@pytest.fixture
def long_text(rng):
    """40 documents of sentences of 1 to 12 words."""
    words = ["good", "bad", "film", "story", "seven"]
    documents = []
    for _ in range(40):
        lines = [
            " ".join(rng.choice(words, size=rng.integers(1, 13))).capitalize() + "."
            for _ in range(rng.integers(1, 15))
        ]
        documents.append("\n".join(lines))
    return "\n\n".join(documents)


@pytest.mark.parametrize(
    ("line", "sentences"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ('He said: "Go." Then (he left.) "Why?" she asked.',
         ['He said: "Go."', "Then (he left.)", '"Why?" she asked.']),
        ("It costs 3.50 euros, i.e. less. 20 left... Über alles.",
         ["It costs 3.50 euros, i.e. less.", "20 left...", "Über alles."]),
        ("我们去。好吗？好！", ["我们去。", "好吗？", "好！"]),
        ("", []),
        ("no end", ["no end"]),
    ],
)  # fmt: skip
def test_sentences_end_at_their_marks(line, sentences):
    assert corpus.split_sentences(line) == sentences


def test_whole_sentences_are_packed_and_no_example_crosses_a_document(tmp_path, tokenizer):
    path = write(tmp_path / "a.txt", "Good film. Bad story.\nSeven films. It is good.\n\nGood.")
    encoded = corpus.encode_corpus(path, tokenizer, 8)
    assert [body(encoded, i, tokenizer) for i in range(len(encoded))] == [
        pieces(tokenizer, "good film. bad story."),
        pieces(tokenizer, "seven films."),
        pieces(tokenizer, "it is good."),
        pieces(tokenizer, "good."),
    ]
    assert encoded.labels is None
    assert not encoded.types.any()
    for index in range(len(encoded)):
        row = encoded.row(index)
        assert (row[0], row[-1]) == (tokenizer.cls_id, tokenizer.sep_id)


def test_all_text_is_kept_in_order_and_a_part_is_drawn_from_all_of_it(
    tmp_path, tokenizer, long_text
):
    path = write(tmp_path / "a.txt", long_text)
    whole = corpus.encode_corpus(path, tokenizer, 24)
    together = [t for i in range(len(whole)) for t in body(whole, i, tokenizer)]
    assert together == pieces(tokenizer, long_text)
    assert whole.lengths.max() <= 24
    part, again, other = (
        corpus.encode_corpus(path, tokenizer, 24, max_tokens=400, seed=seed) for seed in (1, 1, 2)
    )
    assert 400 <= part.num_tokens < 400 + 24
    rows = [whole.row(i).tolist() for i in range(len(whole))]
    places = [rows.index(part.row(i).tolist()) for i in range(len(part))]
    assert max(places) > len(whole) * 0.7
    assert again.ids.tolist() == part.ids.tolist() != other.ids.tolist()
    everything = corpus.encode_corpus(path, tokenizer, 24, max_tokens=10**9)
    assert everything.ids.tolist() == whole.ids.tolist()


def test_unusable_input_is_refused(tmp_path, tokenizer):
    empty = write(tmp_path / "empty.txt", " \n\n")
    silent = write(tmp_path / "silent.txt", "\u200b")
    good = write(tmp_path / "good.txt", "good")
    for paths, options, told in (
        ([good, empty], {}, r"empty\.txt: expected text"),
        (tmp_path / "nowhere.txt", {}, "nowhere"),
        (silent, {}, "corpus: expected words"),
        (good, {"max_length": 2}, "max_length"),
        (good, {"max_tokens": 0}, "max_tokens"),
    ):
        with pytest.raises(errors.DataError, match=told):
            corpus.encode_corpus(paths, tokenizer, **options)
