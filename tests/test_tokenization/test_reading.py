import json
import pathlib
import shutil
import types

import pytest
import toys
import transformers
from random_texts import random_texts

from tfdistill import errors, models, tasks, training, weights
from tfdistill.data import batches
from tfdistill.run import inputs, teachers
from tfdistill.tokenization import library, reading
from tfdistill.tokenization.reading import read_tokenizer, read_vocab
from tfdistill.tokenization.wordpiece import WordPiece


@pytest.mark.parametrize(
    ("settings", "lower_case"),
    [
        ({"a_key_of_next_year": 1}, True),
        ({}, True),
        ({"do_lower_case": False}, False),
        ({"do_lower_case": False, "strip_accents": False}, False),
        ({"do_lower_case": True, "strip_accents": True}, True),
        ({"max_len": 512, "init_inputs": [], "num_labels": 2, "problem_type": "x"}, True),
        ({"strip_accents": None, "tokenizer_class": "DistilBertTokenizerFast"}, True),
        ({"never_split": [], "pad_token": {"content": "[PAD]", "lstrip": False}}, True),
    ],
)
def test_berts_tokenizer_is_taken_with_its_case(settings, lower_case):
    assert reading.check_settings(settings) is lower_case


@pytest.mark.parametrize(
    "settings",
    [
        {"strip_accents": False},
        {"do_lower_case": False, "strip_accents": True},
        {"tokenize_chinese_chars": False},
        {"tokenizer_class": "BertJapaneseTokenizer"},
        {"never_split": ["w"]},
        {"do_basic_tokenize": False},
        {"unk_token": "<unk>"},
        {"do_lower_case": "yes"},
        {"mask_token": {"content": "<mask>"}},
    ],
    ids=lambda settings: "-".join(settings),
)
def test_a_setting_that_our_tokenizer_lacks_is_refused_by_name(settings):
    with pytest.raises(errors.WeightsError, match=list(settings)[-1]):
        reading.check_settings(settings)
    several = {"strip_accents": False, "tokenize_chinese_chars": False}  # named at once
    with pytest.raises(errors.WeightsError, match=r"tokenize_chinese_chars[^$]*strip_accents"):
        reading.check_settings(several)


TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##c", "é", "E"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A classifier with its tokenizer, as save_hf writes it."""
    vocab_file = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    vocab_file.write_text("\n".join(TOKENS) + "\n", encoding="utf-8")
    shape = toys.STUDENT.replace(num_layers=1, vocab_size=len(TOKENS))
    model = toys.randomise(models.build_classifier(shape, 2))
    return weights.save_hf(
        model, vocab_file.parent / "hf", tokenizer=read_tokenizer(vocab_file, lower_case=False)
    )


@pytest.fixture
def folder(saved, tmp_path):
    return pathlib.Path(shutil.copytree(saved, tmp_path / "hf"))


def edit(path, **changes):
    settings = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**settings, **changes}), encoding="utf-8")


def edit_tokenizer(folder, change):
    path = folder / "tokenizer.json"
    described = json.loads(path.read_text(encoding="utf-8"))
    change(described)
    path.write_text(json.dumps(described), encoding="utf-8")


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.txt"])
def test_either_file_alone_says_the_same(folder, name):
    (folder / name).unlink()
    alone = weights.load_classifier(folder)
    assert alone.tokenizer.vocab == TOKENS
    assert alone.tokenizer.lower_case is False
    assert alone.max_length == toys.STUDENT.max_positions


def test_the_class_of_a_tokenizer_may_be_in_the_file_of_the_model(folder):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    edit(folder / "config.json", tokenizer_class="MPNetTokenizer")
    there = transformers.AutoTokenizer.from_pretrained(folder)
    assert there.cls_token == "<s>"  # other ids than BERT's
    with pytest.raises(errors.WeightsError, match=r"config\.json, tokenizer_class"):
        weights.load_classifier(folder)
    edit(folder / "config.json", tokenizer_class="DistilBertTokenizer")
    assert not reading.read_folder(folder).types_pairs
    edit(folder / "tokenizer_config.json", tokenizer_class="BertTokenizer")
    assert reading.read_folder(folder).types_pairs


def test_a_model_section_without_its_type_is_read_as_that_of_word_pieces(folder):
    (folder / "vocab.txt").unlink()
    edit_tokenizer(folder, lambda described: described["model"].pop("type"))
    assert weights.load_classifier(folder).tokenizer.vocab == TOKENS
    edit_tokenizer(folder, lambda described: described["model"].update(merges=[]))
    with pytest.raises(
        errors.VocabularyError, match="expected WordPiece or Unigram, received 'BPE'"
    ):
        weights.load_classifier(folder)


TYPED = ["input_ids", "token_type_ids", "attention_mask"]


@pytest.mark.parametrize(
    ("settings", "typed"),
    [
        ({}, True),
        ({"tokenizer_class": "DistilBertTokenizerFast"}, False),
        ({"tokenizer_class": "TokenizersBackend"}, False),
        ({"model_input_names": ["input_ids", "attention_mask"]}, False),
        ({"tokenizer_class": "DistilBertTokenizer", "model_input_names": TYPED}, True),
    ],
)
def test_a_classifier_of_pairs_must_have_seen_their_types(folder, settings, typed):
    edit(folder / "tokenizer_config.json", **settings)
    spec = {"task_kind": "classification", "num_labels": 2}
    assert weights.load_model(folder, "sequence", **spec).labels  # of single texts
    assert weights.load_model(folder, "sequence", pairs=True, new_head=True, **spec).report.fresh
    if typed:
        assert weights.load_model(folder, "sequence", pairs=True, **spec).labels
        return
    with pytest.raises(errors.WeightsError, match="token_type_ids: the second text"):
        weights.load_model(folder, "sequence", pairs=True, **spec)
    task = tasks.TaskSpec("mine", "a", "label", pair_column="b", labels=("LABEL_0", "LABEL_1"))
    for load in (training.load_teacher, inputs.open_source):
        with pytest.raises(errors.WeightsError, match="token_type_ids"):
            load(str(folder), task)


def test_without_settings_the_case_of_tokenizer_json_must_be_that_of_transformers(folder):
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(errors.WeightsError, match="do_lower_case"):
        weights.load_classifier(folder)
    edit(folder / "tokenizer_config.json", tokenizer_class="PreTrainedTokenizerFast")
    tokenizer = weights.load_classifier(folder).tokenizer
    assert tokenizer.lower_case is False  # this class asks for nothing else
    edit_tokenizer(folder, lambda described: described["normalizer"].update(lowercase=True))
    assert weights.load_classifier(folder).tokenizer.lower_case is True


def test_a_vocabulary_that_disagrees_is_refused_with_its_lines(folder):
    swapped = [*TOKENS[:5], "b", "a", *TOKENS[7:]]
    (folder / "vocab.txt").write_text("\n".join(swapped) + "\n", encoding="utf-8")
    with pytest.raises(
        errors.WeightsError, match=r"id 5 \(line 6\).*'a' as in.*received 'b', the first of 2"
    ):
        weights.load_classifier(folder)
    (folder / "vocab.txt").write_text("\n".join(TOKENS[:-1]) + "\n", encoding="utf-8")
    with pytest.raises(errors.WeightsError, match=r"\(line 10\).*received no token"):
        weights.load_classifier(folder)


def _add(described, *tokens):
    described["added_tokens"] += [
        {"id": len(TOKENS) + index, "content": token} for index, token in enumerate(tokens)
    ]


ADDED = {
    "added_tokens.json": {"[E11]": 10},
    "special_tokens_map.json": {"additional_special_tokens": ["[E11]"]},
    # The others are keys of tokenizer_config.json.
    "added_tokens_decoder": {"5": {"content": "a"}, "10": {"content": "[E11]"}},
    "additional_special_tokens": [{"content": "[E11]"}],
    "extra_special_tokens": {"entity": "[E11]"},
    "bos_token": "[E11]",
}


@pytest.mark.parametrize("where", ["tokenizer.json", *ADDED])
def test_added_tokens_are_refused_by_name_wherever_they_are_listed(where, folder):
    if where == "tokenizer.json":
        edit_tokenizer(folder, lambda described: _add(described, "[E11]", "[E12]"))
    elif where.endswith(".json"):
        edit(folder / where, **ADDED[where])
    else:
        edit(folder / "tokenizer_config.json", **{where: ADDED[where]})
    with pytest.raises(errors.TfdistillError, match=r"added: .*'\[E11\]'") as raised:
        weights.load_classifier(folder)
    assert where in str(raised.value)


def test_bert_s_own_special_tokens_may_be_listed_everywhere(folder):
    listed = {str(index): {"content": token} for index, token in enumerate(TOKENS[:5])}
    edit(folder / "tokenizer_config.json", added_tokens_decoder=listed, bos_token="[CLS]")
    edit(folder / "special_tokens_map.json", cls_token={"content": "[CLS]", "lstrip": False})
    edit(folder / "added_tokens.json", **{"[MASK]": 4})
    assert weights.load_classifier(folder).tokenizer.lower_case is False


def test_special_tokens_that_only_the_list_holds_are_part_of_the_vocabulary(folder):
    def move(described):
        del described["model"]["vocab"]["[MASK]"]
        described["model"]["vocab"]["E"] = 4
        described["added_tokens"][-1]["id"] = 9

    edit_tokenizer(folder, move)
    (folder / "vocab.txt").unlink()
    tokens = weights.load_classifier(folder).tokenizer.vocab
    assert (tokens[4], tokens[9]) == ("E", "[MASK]")


def _set(section, **values):
    return lambda described: described[section].update(values)


OTHER_TOKENIZERS = {
    "BPE": _set("model", type="BPE"),
    "max_input_chars_per_word": _set("model", max_input_chars_per_word=200),
    "continuing_subword_prefix": _set("model", continuing_subword_prefix="@@"),
    "unk_token": _set("model", unk_token="<unk>"),
    "no normalizer": lambda described: described.update(normalizer=None),
    "clean_text": _set("normalizer", clean_text=False),
    "handle_chinese_chars": _set("normalizer", handle_chinese_chars=False),
    "strip_accents": _set("normalizer", strip_accents=True),
    "further normalizer": lambda described: described.update(
        normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}, described["normalizer"]]}
    ),
    "pre_tokenizer": lambda described: described.update(pre_tokenizer={"type": "Whitespace"}),
    "post_processor": lambda described: described["post_processor"]["single"].pop(),
    "pair types": lambda described: described["post_processor"]["pair"][3]["Sequence"].update(
        type_id=0
    ),
    "template id": lambda described: described["post_processor"]["special_tokens"]["[CLS]"].update(
        ids=[5]
    ),
    "no template ids": _set("post_processor", special_tokens=None),
    "ids of another form": lambda described: described.update(
        post_processor={"type": "BertProcessing", "cls": 3, "sep": "x"}
    ),
    "truncation side": lambda described: described.update(truncation={"direction": "Left"}),
    "padding side": lambda described: described.update(padding={"direction": "Left"}),
    "a hole": lambda described: described["model"]["vocab"].update({"a": 20}),
    "two tokens of one id": lambda described: described["model"]["vocab"].update({"a": 6}),
    "no ids": lambda described: described["model"].update(vocab=TOKENS),
    "wrong id": lambda described: described["model"]["vocab"].update({"a": "5"}),
    "further section": lambda described: described.update(dropout={"p": 0.1}),
    "other special id": lambda described: described["added_tokens"][0].update(id=3),
}


@pytest.mark.parametrize("other", OTHER_TOKENIZERS)
def test_a_tokenizer_json_that_is_not_berts_is_refused(other, folder):
    edit_tokenizer(folder, OTHER_TOKENIZERS[other])
    with pytest.raises(errors.TfdistillError, match=r"tokenizer\.json"):
        weights.load_classifier(folder)


def _split(*members):
    return {"type": "Sequence", "pretokenizers": list(members)}


def _parts_of_bert_normalizer(described):
    """BERT's normalizer as two: cleaning, then ideographs."""
    usual = described["normalizer"]
    parts = [{**usual, "handle_chinese_chars": False}, {**usual, "clean_text": False}]
    described["normalizer"] = {"type": "Sequence", "normalizers": parts}


ALIKE = {
    "a sequence of one": lambda described: described.update(
        pre_tokenizer=_split(described["pre_tokenizer"])
    ),
    "words before marks": lambda described: described.update(
        pre_tokenizer=_split({"type": "WhitespaceSplit"}, described["pre_tokenizer"])
    ),
    "the normalizer in parts": _parts_of_bert_normalizer,
    "BERT's own template": lambda described: described.update(
        post_processor={"type": "BertProcessing", "cls": ["[CLS]", 2], "sep": ["[SEP]", 3]}
    ),
    "another decoder": lambda described: described.update(decoder=None),
    "accents by name": _set("normalizer", strip_accents=False),
}


@pytest.mark.parametrize("description", ALIKE)
def test_a_description_that_answers_alike_is_taken(description, folder):
    edit_tokenizer(folder, ALIKE[description])
    assert weights.load_classifier(folder).tokenizer.lower_case is False


def test_the_text_that_is_split_otherwise_is_told_with_both_results(folder):
    edit_tokenizer(folder, _set("normalizer", strip_accents=True))
    told = r"tokens of 'élève .*': expected '\[CLS\] é ##l .* received '\[CLS\] e ##l"
    with pytest.raises(errors.VocabularyError, match=told):
        weights.load_classifier(folder)


def test_the_probe_tells_another_tokenizer_whatever_the_vocabulary_of_the_file_holds(tmp_path):
    """The file knows no letter with an accent: to all of them it would answer [UNK]."""
    path = tmp_path / "tokenizer.json"
    WordPiece(TOKENS[:5]).save_json(str(path))
    described = json.loads(path.read_text())
    described["normalizer"]["strip_accents"] = False
    path.write_text(json.dumps(described))
    with pytest.raises(errors.VocabularyError, match="tokens of"):
        read_vocab(path)


def test_a_regular_expression_and_a_panic_of_the_library_are_refused(folder, monkeypatch):
    pattern = {"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""}
    edit_tokenizer(folder, lambda described: described.update(normalizer=pattern))
    with pytest.raises(errors.VocabularyError, match="no regular expressions"):
        weights.load_classifier(folder)

    class PanicException(BaseException):
        """As the library's, which is no Exception."""

    def panic(content):
        raise PanicException("index out of bounds")

    broken = types.SimpleNamespace(Tokenizer=types.SimpleNamespace(from_str=panic))
    monkeypatch.setattr(library, "tokenizers", broken)
    with pytest.raises(errors.VocabularyError, match="can read, received index out of bounds"):
        library.built(folder / "tokenizer.json", "{}")


@pytest.mark.parametrize(
    "settings",
    [
        {"truncation_side": "left"},
        {"padding_side": "left"},
        {"model_max_length": "many"},
        {"tfdistill_prompt": ["query: "]},
        {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": "maybe"},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_a_setting_of_another_tokenizer_is_refused_by_name_and_file(settings, folder):
    edit(folder / "tokenizer_config.json", **settings)
    with pytest.raises(errors.WeightsError, match=rf"tokenizer_config\.json, {[*settings][-1]}"):
        weights.load_classifier(folder)


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "expected"), [(9, 9), (int(1e30), None), (None, None)])
@pytest.mark.parametrize("name", ["model_max_length", "max_len"])
def test_the_tokens_that_a_tokenizer_allows_are_known(name, limit, expected, folder):
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    del settings["model_max_length"]
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, name: limit}))
    assert weights.load_classifier(folder).max_length == expected
    source = inputs.open_source(str(folder))
    assert source.max_length == (expected or toys.STUDENT.max_positions)


@pytest.mark.slow
@pytest.mark.parametrize("lower_case", [True, False])
def test_random_texts_have_the_ids_of_a_written_folder(lower_case, toy_vocab_file, tmp_path):
    vocab_size = len(read_vocab(toy_vocab_file))
    shape = toys.STUDENT.replace(num_layers=1, vocab_size=vocab_size)
    folder = weights.save_hf(
        models.build_encoder(shape),
        tmp_path / "hf",
        tokenizer=read_tokenizer(toy_vocab_file, lower_case=lower_case),
    )
    texts = random_texts(20_000)
    encoded = transformers.AutoTokenizer.from_pretrained(folder)(texts, split_special_tokens=True)
    (folder / "vocab.txt").unlink()
    loaded = weights.load_model(folder, "none")
    ours = loaded.tokenizer.encode_batch(texts, None, 10_000)
    for index, text in enumerate(texts):
        assert ours.row(index).tolist() == encoded["input_ids"][index], repr(text)


def test_a_folder_that_transformers_reads_otherwise_is_not_written(
    toy_vocab_file, tmp_path, monkeypatch
):
    shape = toys.STUDENT.replace(num_layers=1, vocab_size=len(read_vocab(toy_vocab_file)))
    save = WordPiece.save_json

    def save_other(tokenizer, path):
        save(tokenizer.subset([*range(5), *range(6, tokenizer.vocab_size), 5]), path)

    monkeypatch.setattr(WordPiece, "save_json", save_other)
    with pytest.raises(errors.WeightsError, match="as in tokenizer"):
        weights.save_hf(
            models.build_encoder(shape), tmp_path / "hf", tokenizer=toy_vocab_file, texts=["the a"]
        )
    assert not (tmp_path / "hf").exists()


def test_a_teacher_as_it_is_reads_no_more_tokens_than_its_tokenizer_allows(folder):
    edit(folder / "tokenizer_config.json", model_max_length=6)
    task = tasks.TaskSpec("t", "text", "label", labels=("LABEL_0", "LABEL_1"))
    train = batches.Batches(toys.encoded(20))
    data = types.SimpleNamespace(
        task=task,
        train=train,
        train_examples=tasks.Examples(task, [""] * 20, None, None),
        tokenizer=read_tokenizer(folder / "vocab.txt"),
    )
    assert data.train.encoded.lengths.max() > 6
    with pytest.raises(errors.ConfigError, match="at most 6 tokens"):
        teachers.load_classifier(str(folder), data)
    assert teachers.load_classifier(str(folder), data, fresh_head=True)  # it will be fine-tuned
