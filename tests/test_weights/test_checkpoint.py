import functools
import itertools
import json
import shutil

import numpy as np
import pytest
import safetensors.numpy
import toys
from test_weights.edits import ABSENT, edit, edit_config

from tfdistill import errors, models, weights
from tfdistill.tokenization.reading import read_tokenizer

randomise = functools.partial(toys.randomise, scale=0.4)

CONFIG = models.EncoderConfig(
    num_layers=1,
    hidden_size=8,
    num_heads=2,
    intermediate_size=12,
    vocab_size=10,
    max_positions=6,
    layer_norm_eps=1e-5,
    dropout=0.2,
    attention_dropout=0.3,
    classifier_dropout=0.25,
    hidden_act="gelu_tanh",
    pad_token_id=1,
)
CONFIGS = {
    "bert": CONFIG,
    "untyped": CONFIG.replace(type_vocab_size=0),
    "tinybert": CONFIG.replace(family="tinybert", classifier_dropout=None),
    "pruned": CONFIG.replace(num_heads=1, head_size=4),
    "pruned distilbert": CONFIG.replace(
        family="distilbert",
        type_vocab_size=0,
        pooler=False,
        layer_norm_eps=1e-12,
        num_heads=3,
        head_size=2,
    ),
    "distilbert": CONFIG.replace(
        family="distilbert", type_vocab_size=0, pooler=False, layer_norm_eps=1e-12
    ),
    "electra": CONFIG.replace(family="electra", pooler=False, embedding_size=4),
}
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]


def features(config):
    ids = np.array([[2, 5, 3], [2, 6, 3]], np.int32)
    both = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    return {**both, "token_type_ids": ids // 5} if config.type_vocab_size else both


@pytest.fixture
def vocab_file(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("\n".join(TOKENS) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A saved two-class BERT."""
    place = tmp_path_factory.mktemp("saved")
    (place / "words.txt").write_text("\n".join(TOKENS) + "\n", encoding="utf-8")
    return weights.save_hf(
        randomise(models.build_classifier(CONFIG, 2)),
        place / "hf",
        labels=["bad", "good"],
        tokenizer=read_tokenizer(place / "words.txt", lower_case=False),
    )


@pytest.fixture
def folder(saved, tmp_path):
    """A copy of the saved BERT, to be changed."""
    return shutil.copytree(saved, tmp_path / "hf")


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_a_saved_classifier_comes_back_whole(name, tmp_path, vocab_file):
    config = CONFIGS[name]
    model = randomise(models.build_classifier(config, 3))
    weights.save_hf(
        model,
        tmp_path / "hf",
        labels=["x", "y", "z"],
        tokenizer=read_tokenizer(vocab_file, lower_case=False),
    )
    loaded = weights.load_classifier(tmp_path / "hf")
    np.testing.assert_array_equal(loaded.model(features(config)), model(features(config)))
    assert loaded.config == models.config_of(loaded.model) == config
    assert loaded.labels == ("x", "y", "z")
    assert loaded.tokenizer.lower_case is False
    assert loaded.tokenizer.file_text == vocab_file.read_text()
    assert len(loaded.report.loaded) == len(model.weights)
    assert not loaded.report.fresh


def test_a_regressor_and_missing_labels_have_their_own_names(tmp_path):
    weights.save_hf(models.build_classifier(CONFIG, 1), tmp_path / "one")
    assert json.loads((tmp_path / "one/config.json").read_text())["problem_type"] == "regression"
    assert weights.load_classifier(tmp_path / "one").labels == ()
    weights.save_hf(models.build_classifier(CONFIG, 2), tmp_path / "two")
    assert weights.load_classifier(tmp_path / "two").labels == ("LABEL_0", "LABEL_1")


def test_labels_keep_their_order_and_what_is_left_out_is_named(folder):
    report = weights.load_model(folder, "none").report
    assert report.ignored == ("classifier.bias", "classifier.weight")
    assert "2 ignored (classifier.bias, classifier.weight)" in str(report)
    edit_config(folder, id2label={"1": "good", "0": "bad"})
    assert weights.load_classifier(folder).labels == ("bad", "good")
    extra = [
        "bert.embeddings.position_ids",
        "cls.predictions.bias",
        "cls.predictions.transform.LayerNorm.weight",
        "cls.seq_relationship.weight",
        "qa_outputs.bias",
    ]
    edit(folder, lambda tensors: tensors.update({key: np.zeros(3, np.float32) for key in extra}))
    report = weights.load_classifier(folder).report
    assert report.ignored == tuple(sorted(key.removeprefix("bert.") for key in extra))


@pytest.mark.slow
@pytest.mark.parametrize("key", ["fit_dense.weight", "fit_denses.3.bias"])
def test_projections_mark_a_tinybert_whose_head_has_a_relu(folder, key):
    edit_config(folder, tfdistill={})
    assert weights.load_classifier(folder).config.family == "bert"
    edit(folder, lambda tensors: tensors.update({key: np.zeros((4, 4), np.float32)}))
    loaded = weights.load_classifier(folder)
    assert loaded.config.family == "tinybert"
    assert loaded.report.ignored == (key,)
    told = weights.load_classifier(folder, family="bert")
    assert told.config.family == "bert"
    data = features(CONFIG)
    pooled = models.taps(loaded.model)(data)["pooled_output"].numpy()
    dense = loaded.model.get_layer("classifier")
    expected = np.maximum(pooled, 0) @ dense.kernel.numpy() + dense.bias.numpy()
    assert (pooled < 0).any()
    np.testing.assert_allclose(loaded.model(data), expected, atol=1e-6)
    assert np.abs(told.model(data) - expected).max() > 1e-2


def test_old_names_of_layer_norm_are_understood_and_half_precision_is_widened(folder):
    expected = weights.load_classifier(folder).model(features(CONFIG))

    def rename(tensors):
        for key in [key for key in tensors if "LayerNorm" in key]:
            new = key.replace("LayerNorm.weight", "LayerNorm.gamma")
            tensors[new.replace("LayerNorm.bias", "LayerNorm.beta")] = tensors.pop(key)

    edit(folder, rename)
    np.testing.assert_array_equal(weights.load_classifier(folder).model(features(CONFIG)), expected)
    import ml_dtypes

    expected = weights.load_classifier(folder).model(features(CONFIG))
    dtypes = itertools.cycle([np.float16, ml_dtypes.bfloat16])
    edit(folder, lambda held: held.update({k: v.astype(next(dtypes)) for k, v in held.items()}))
    model = weights.load_classifier(folder).model
    assert model.get_layer("pooler").kernel.dtype == "float32"
    np.testing.assert_allclose(model(features(CONFIG)), expected, atol=0.1)


def test_a_missing_head_is_made_only_on_request_and_reported(tmp_path):
    encoder = randomise(models.build_encoder(CONFIG.replace(pooler=False)))
    weights.save_hf(encoder, tmp_path / "hf")
    with pytest.raises(errors.WeightsError, match=r"tfdistill finetune.* pass num_labels=2"):
        weights.load_classifier(tmp_path / "hf")
    loaded = weights.load_classifier(tmp_path / "hf", num_labels=4)
    assert loaded.labels == ()
    assert models.num_labels_of(loaded.model) == 4
    assert loaded.report.fresh == (
        "classifier.bias",
        "classifier.weight",
        "pooler.dense.bias",
        "pooler.dense.weight",
    )
    states = models.taps(loaded.model)(features(CONFIG))["sequence_output"]
    np.testing.assert_array_equal(states, encoder(features(CONFIG))["sequence_output"])


def test_a_head_of_another_width_is_refused_unless_a_new_one_is_asked_for(folder):
    with pytest.raises(errors.WeightsError, match=r"expected 3 labels, received 2\. .*new_head"):
        weights.load_classifier(folder, num_labels=3)
    loaded = weights.load_classifier(folder, num_labels=3, new_head=True)
    assert loaded.report.fresh == ("classifier.bias", "classifier.weight")
    assert loaded.report.ignored == ("classifier.bias", "classifier.weight")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("bert.encoder.layer.0.output.dense.bias"), "missing: encoder.layer.0.out"),
        (lambda t: t.pop("classifier.bias"), "missing: classifier.bias"),
        (lambda t: t.pop("bert.pooler.dense.bias"), "missing: pooler.dense.bias"),
        (
            lambda t: t.update({"bert.encoder.layer.1.output.dense.bias": np.zeros(8)}),
            "unexpected: encoder.layer.1.output.dense.bias",
        ),
        (
            lambda t: t.update({"bert.embeddings.word_embeddings.weight": np.zeros((11, 8))}),
            r"wrong shape: embeddings.word_embeddings.weight \(11, 8\) instead of \(10, 8\)",
        ),
        (
            lambda t: t["bert.pooler.dense.bias"].fill(np.nan),
            "expected finite weights, received NaN or infinity in pooler.dense.bias",
        ),
        (
            lambda t: t.update({"embeddings.LayerNorm.bias": np.zeros(8)}),
            "expected one tensor for embeddings.LayerNorm.bias, received two",
        ),
        (lambda t: t.update({key: np.int8(100 * v) for key, v in t.items()}), "quantized"),
    ],
)
def test_a_tensor_that_does_not_fit_is_refused_by_name(folder, change, message):
    edit(folder, change)
    with pytest.raises(errors.WeightsError, match=message):
        weights.load_classifier(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "roberta"}, "model_type: expected one of .* distilbert.*received 'rob"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type: expected 'abso"),
        ({"is_decoder": True}, "is_decoder: expected false"),
        ({"hidden_act": "swish"}, "activation: expected one of .* received 'swish'"),
        ({"tfdistill": {"format_version": 9}}, "format_version: expected 1, received 9"),
        ({"id2label": {"0": "a", "2": "b"}}, "id2label or label2id: expected a name for 0 to 1"),
        ({"architectures": ["BertForTokenClassification"]}, "whole sentences, received BertForTok"),
        ({"model_type": ["bert"]}, r"model_type: expected one of .* received \['bert'\]"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers: expected at most 512 layers"),
        ({"num_hidden_layers": 10**9, "pruned_heads": {"0": [1]}}, "at most 512 layers"),
        ({"num_hidden_layers": 500}, r"sizes in .*: expected those of the weights: 1 layers"),
        ({"vocab_size": 10**7}, r"sizes in .*received 1 layers, 80,000,\d+ parameters"),
        ({"architectures": "x"}, "architectures: expected a list"),
        ({"id2label": [1, 2]}, "id2label: expected an object"),
        ({"pruned_heads": [0]}, "pruned_heads: expected an object"),
        ({"pruned_heads": {"0": 3}}, "pruned_heads: expected lists of heads"),
        ({"tfdistill": "x"}, "tfdistill: expected an object"),
        ({"hidden_act": ["gelu"]}, "hidden_act: expected text"),
        (
            {"quantization_config": {"quant_method": "gptq"}},
            "none, received 'gptq'. Its weights ar",
        ),
        (
            {"quantization_config": {"bits": 4}},
            "quantization_config: expected none, received {'bits'",
        ),
        ({"tfdistill": False}, "tfdistill: expected an object"),
        ({"hidden_size": ABSENT}, "expected the key 'hidden_size'"),
        ({"model_type": ABSENT}, 'add "model_type": "bert"'),
        ({"pruned_heads": {"0": [0, 1]}}, "pruned_heads.*at least one"),
    ],
)
def test_a_config_of_another_kind_is_refused(folder, changes, message):
    edit_config(folder, **changes)
    with pytest.raises(errors.WeightsError, match=message):
        weights.load_classifier(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"hidden_size": 10**7},
        {"hidden_size": True},
        {"num_attention_heads": 3},
        {"num_hidden_layers": -1},
        {"intermediate_size": 10**12},
        {"vocab_size": 2**40},
        {"layer_norm_eps": "small"},
        {"hidden_dropout_prob": float("nan")},
        {"classifier_dropout": []},
        {"pad_token_id": 99},
    ],
    ids=str,
)
def test_impossible_sizes_are_refused_before_anything_is_built(folder, changes, monkeypatch):
    edit_config(folder, **changes)
    monkeypatch.setattr(models, "build_model", None)
    with pytest.raises(errors.ConfigError):
        weights.load_classifier(folder)


def test_the_bounds_admit_the_largest_encoders_and_vocabularies():
    sizes = {"num_layers": 48, "hidden_size": 2560, "num_heads": 40, "intermediate_size": 10240}
    shape = models.EncoderConfig(**sizes, vocab_size=501153, max_positions=8192)  # of LaBSE
    assert models.count_parameters(shape) > 300_000_000


def test_another_layout_or_architecture_is_refused_by_name(folder):
    with pytest.raises(errors.WeightsError, match=r"family: .*'bert', 'tinybert'.*'distilbert'"):
        weights.load_encoder(folder, family="distilbert")
    (folder / "model.safetensors").unlink()
    edit_config(folder, model_type="deberta-v2")
    with pytest.raises(errors.WeightsError, match=r"received 'deberta-v2'\. Only BERT, TinyBERT"):
        weights.open_checkpoint(folder)


def test_a_corrupt_file_is_refused(folder):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"not a checkpoint at all"):
        path.write_bytes(content)
        with pytest.raises(errors.WeightsError, match="It is corrupt; fetch it again"):
            weights.load_encoder(folder)
    path.write_bytes(whole)
    (folder / "config.json").write_text("{")
    with pytest.raises(errors.WeightsError, match="expected valid JSON"):
        weights.load_encoder(folder)


def test_a_folder_around_a_checkpoint_points_to_it(folder, tmp_path):
    below = tmp_path / "run" / "teacher" / "model"
    below.mkdir(parents=True)
    folder.rename(below / "hf")
    with pytest.raises(errors.WeightsError, match=rf"Did you mean {below / 'hf'}\?"):
        weights.open_checkpoint(tmp_path / "run")
    with pytest.raises(errors.WeightsError):
        weights.open_checkpoint(tmp_path)


def test_missing_files_are_named_with_a_remedy(folder, tmp_path):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(errors.WeightsError, match=r"pytorch_model\.bin.*safe_serialization=True"):
        weights.load_encoder(folder)
    (folder / "pytorch_model.bin").rename(folder / "tf_model.h5")
    with pytest.raises(errors.WeightsError, match=r"only tf_model\.h5\..*TFAutoModel"):
        weights.load_encoder(folder)
    (folder / "tf_model.h5").unlink()
    with pytest.raises(errors.WeightsError, match=r"expected model\.safetensors in"):
        weights.load_encoder(folder)
    (folder / "config.json").unlink()
    with pytest.raises(errors.WeightsError, match=r"expected config\.json in"):
        weights.load_encoder(folder)
    with pytest.raises(errors.WeightsError, match="an existing folder or a hub id"):
        weights.load_encoder(tmp_path / "nowhere")
    with pytest.raises(errors.WeightsError, match="expected a folder or a hub id, received the"):
        weights.load_encoder(folder / "vocab.txt")


def split(folder):
    """Saves the checkpoint of a folder in two parts with an index."""
    path = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    path.unlink()
    places = {}
    for number, key in enumerate(sorted(tensors)):
        places[key] = f"model-0000{number % 2 + 1}-of-00002.safetensors"
    for name in set(places.values()):
        part = {key: tensors[key] for key in places if places[key] == name}
        safetensors.numpy.save_file(part, folder / name, {"format": "pt"})
    return places


def write_index(folder, places):
    text = json.dumps({"metadata": {}, "weight_map": places})
    (folder / "model.safetensors.index.json").write_text(text)


def test_a_checkpoint_in_several_parts_is_read_whole(folder):
    whole = weights.open_checkpoint(folder)
    write_index(folder, split(folder))
    parts = weights.open_checkpoint(folder)
    assert parts.tensors.keys() == whole.tensors.keys()
    for key, tensor in whole.tensors.items():
        np.testing.assert_array_equal(parts.tensors[key], tensor)


@pytest.mark.parametrize("name", ["../part.safetensors", "/x.safetensors", "part.bin", 3, ["x"]])
def test_a_part_outside_the_folder_or_of_another_kind_is_refused(folder, name):
    places = split(folder)
    write_index(folder, {**places, next(iter(places)): name})
    with pytest.raises(errors.WeightsError, match=r"names of \.safetensors files next to it"):
        weights.open_checkpoint(folder)


def test_an_index_and_its_parts_must_agree(folder):
    places = split(folder)
    write_index(folder, {**places, "bert.more": places[next(iter(places))]})
    with pytest.raises(errors.WeightsError, match=r"difference in bert\.more"):
        weights.open_checkpoint(folder)
    write_index(folder, {})
    with pytest.raises(errors.WeightsError, match="a file name for each tensor"):
        weights.open_checkpoint(folder)


def test_a_vocabulary_larger_than_the_embedding_is_refused(folder):
    with open(folder / "vocab.txt", "a", encoding="utf-8") as file:
        file.write("d\ne\nf\n")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(errors.VocabularyError, match=r"expected at most 10 tokens.*received 11"):
        weights.load_encoder(folder)


def test_a_hub_id_fetches_only_what_is_read_of_a_known_commit(folder, monkeypatch):
    requests = []
    commit = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"
    cached = folder.parent / "snapshots" / commit
    cached.parent.mkdir()
    folder.rename(cached)

    def fetch(name, revision, allow_patterns):
        requests.append((name, revision, sorted(allow_patterns)))
        return str(cached)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    weight_files = ["model-*.safetensors", "model.safetensors", "model.safetensors.index.json"]
    tokenizer_files = ["special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"]
    library = ["config.json", "config_sentence_transformers.json"]
    files = ["added_tokens.json", *library, *weight_files, *tokenizer_files, "vocab.txt"]
    files = ["adapter_config.json", *files]
    for revision in (None, "v1.0", "refs/pr/3", commit[:8]):
        source = f"someone/some-bert@{revision}" if revision else "someone/some-bert"
        requests.clear()
        assert weights.load_classifier(source).labels == ("bad", "good")
        assert requests == [("someone/some-bert", revision, files)]
        assert revision is None or weights.hub_commit(source) == commit
    assert weights.hub_commit(cached) is None


def test_an_unreachable_hub_says_how_to_go_on_without(monkeypatch):
    def fail(*args, **kwargs):
        raise OSError("no route\nmore")

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    with pytest.raises(errors.WeightsError, match=r"no folder here.*no route\. Without a network"):
        weights.load_encoder("bert-base-uncased")


def test_an_existing_folder_stays_unless_told_and_where_a_save_fails(folder, monkeypatch, tmp_path):
    before = (folder / "model.safetensors").read_bytes()
    other = models.build_encoder(CONFIG)
    with pytest.raises(errors.OutputExistsError, match="an earlier Hugging Face folder"):
        weights.save_hf(other, folder)
    assert (folder / "model.safetensors").read_bytes() == before
    weights.save_hf(other, folder, overwrite=True)
    assert not (folder / "vocab.txt").exists()
    assert (folder / "model.safetensors").read_bytes() != before

    def fail(*args, **kwargs):
        raise OSError("No space left on device")

    before = sorted(path.name for path in folder.iterdir())
    monkeypatch.setattr("safetensors.numpy.save_file", fail)
    with pytest.raises(OSError, match="No space left"):
        weights.save_hf(models.build_encoder(CONFIG), folder, overwrite=True)
    assert sorted(path.name for path in folder.iterdir()) == before
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]


@pytest.mark.parametrize("labels", [["a"], ["a", "a"], ["a", "b", "c"]])
def test_labels_that_do_not_fit_the_head_are_refused(labels, tmp_path):
    with pytest.raises(errors.WeightsError, match="labels: expected 2 different names"):
        weights.save_hf(models.build_classifier(CONFIG, 2), tmp_path / "hf", labels=labels)
    assert not (tmp_path / "hf").exists()


OTHER_HEADS = r"Choose other heads, or keep the \.keras file"


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        (CONFIG.replace(vocab_size=7), errors.VocabularyError, "at most 7 tokens"),
        (
            CONFIGS["distilbert"].replace(layer_norm_eps=1e-5),
            errors.WeightsError,
            "layer_norm_eps of a DistilBERT",
        ),
        (CONFIG.replace(num_heads=2, head_size=5), errors.WeightsError, OTHER_HEADS),
        (CONFIG.replace(num_heads=3, head_size=4), errors.WeightsError, OTHER_HEADS),
    ],
)
def test_what_transformers_would_compute_differently_is_not_saved(
    config, error, message, tmp_path, vocab_file
):
    with pytest.raises(error, match=message):
        weights.save_hf(models.build_encoder(config), tmp_path / "hf", tokenizer=vocab_file)
    assert not (tmp_path / "hf").exists()


def test_pruned_heads_are_written_as_transformers_prunes_them(tmp_path):
    """It builds hidden_size / head_size heads and takes those away that pruned_heads lists."""
    config = CONFIG.replace(hidden_size=12, num_heads=2, head_size=3, num_layers=2)
    weights.save_hf(models.build_encoder(config), tmp_path / "hf")
    written = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert (written["hidden_size"], written["num_attention_heads"]) == (12, 4)
    assert written["pruned_heads"] == {"0": [2, 3], "1": [2, 3]}
    tensors = safetensors.numpy.load_file(tmp_path / "hf" / "model.safetensors")
    assert tensors["encoder.layer.1.attention.self.query.weight"].shape == (6, 12)
    assert tensors["encoder.layer.1.attention.output.dense.weight"].shape == (12, 6)


def test_the_saved_tokenizer_is_the_one_that_was_given(folder):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer("a B c")["input_ids"] == [2, 5, 1, 7, 3]  # cased: "B" is unknown
