"""Recipes without a task, the augmented training set of a run, and noise in its texts."""

import dataclasses
import types
from unittest import mock

import numpy as np
import pytest
import toy_recipes
import unigrams

from tfdistill import augmentation, config, errors, models, run, tasks, weights
from tfdistill.data import batches
from tfdistill.run import corpora, lessons, prepare
from tfdistill.tokenization.reading import read_tokenizer


def scaled_down(name, folder):
    recipe = config.load_recipe(name)
    toy_recipes.write_data(recipe, folder)
    return toy_recipes.scaled_down(recipe, folder).model_dump()


@pytest.mark.slow
def test_a_recipe_without_a_task_ends_in_a_masked_language_model_and_a_report(tmp_path):
    values = scaled_down("distilbert_6l", tmp_path / "files")
    values["teacher"]["num_layers"] = 2
    values["student"] |= {"num_layers": 1, "teacher_layers": (0,)}
    recipe = config.Recipe.model_validate(values)
    metrics = run.run_recipe(recipe, tmp_path / "run")
    teacher, student = metrics.models
    assert (teacher.role, student.role) == ("teacher", "student")
    assert metrics.exports == ()
    for record in (teacher, student):
        assert 0 < record.metrics["mlm_loss"] < 7  # of 400 pieces: log 400 is 6.0
    loaded = weights.load_masked_lm(str(tmp_path / "run" / "student" / "hf"))
    assert models.head_of(loaded.model) == "masked_lm"
    assert models.config_of(loaded.model).num_layers == recipe.student.num_layers
    assert (tmp_path / "run" / "report.html").is_file()
    csv = [tmp_path / "run" / entry.csv for entry in student.history]
    assert csv and all(path.is_file() for path in csv)
    again = run.run_recipe(recipe, tmp_path / "run", resume=True)
    assert again.models == metrics.models


def shape_for(tokenizer):
    sizes = {"num_layers": 1, "hidden_size": 8, "num_heads": 2, "intermediate_size": 8}
    return models.preset("bert_tiny").replace(**sizes, vocab_size=tokenizer.vocab_size)


@pytest.fixture(scope="module")
def prepared_run(tmp_path_factory):
    """A recipe with augmentation, its data, and a masked language model of its vocabulary."""
    root = tmp_path_factory.mktemp("run")
    values = scaled_down("tinybert_4l", root / "files")
    values["data"] |= {"train_limit": 12, "dev_limit": 6}
    recipe = config.Recipe.model_validate(values)
    prepared = prepare.prepare(recipe.model_copy(update={"stages": {}, "variants": {}}), root)[0]
    folder = root / "words"
    model = models.build_masked_lm(shape_for(prepared.tokenizer))
    weights.save_hf(model, folder, tokenizer=prepared.tokenizer)
    values["data"]["augment"] |= {"masked_lm": str(folder), "copies": 2}
    return config.Recipe.model_validate(values), prepared, root


@pytest.mark.slow
def test_the_augmented_set_holds_the_original_examples_and_more(prepared_run):
    recipe, prepared, root = prepared_run
    augmented = prepare.augmented(recipe, prepared, root, "").augmented
    assert augmented is not None and augmented.labels is not None
    assert len(augmented) > len(prepared.train.encoded)
    rows = [augmented.row(index).tolist() for index in range(len(augmented))]
    for index, label in enumerate(prepared.train.encoded.labels):
        place = rows.index(prepared.train.encoded.row(index).tolist())
        assert augmented.labels[place] == label


def test_without_a_stage_that_uses_it_nothing_is_augmented(prepared_run, tmp_path):
    recipe, prepared, _ = prepared_run
    stages = {n: s.model_copy(update={"augmented": False}) for n, s in recipe.stages.items()}
    unused = recipe.model_copy(update={"stages": stages})
    assert prepare.augmented(unused, prepared, tmp_path, "").augmented is None
    assert not (tmp_path / "data").exists()


def test_a_recipe_without_copies_makes_the_published_number(prepared_run, tmp_path, monkeypatch):
    recipe, prepared, _ = prepared_run
    values = recipe.model_dump()
    del values["data"]["augment"]["copies"]
    received = []

    def stopped(_train, _finder, options, *_args, **_options):
        received.append(options.copies)
        raise InterruptedError

    monkeypatch.setattr(augmentation, "load_finder", lambda *_args, **_options: None)
    monkeypatch.setattr(augmentation, "augment_train", stopped)
    for name, copies in (("mnli", 10), ("intents", 30)):
        data = dataclasses.replace(prepared, task=dataclasses.replace(prepared.task, name=name))
        with pytest.raises(InterruptedError):
            prepare.augmented(config.Recipe.model_validate(values), data, tmp_path, "")
        assert received.pop() == copies


def test_a_teacher_without_a_head_for_words_is_refused_for_augmentation(prepared_run, tmp_path):
    recipe, prepared, _ = prepared_run
    encoder = models.build_encoder(shape_for(prepared.tokenizer))
    weights.save_hf(encoder, tmp_path / "encoder")
    settings = recipe.data.augment.model_copy(update={"masked_lm": str(tmp_path / "encoder")})
    data = recipe.data.model_copy(update={"augment": settings})
    with pytest.raises(errors.WeightsError, match="new_head"):
        changed = recipe.model_copy(update={"data": data})
        prepare.augmented(changed, prepared, tmp_path / "x", "")


def test_words_are_learnt_from_the_texts_of_stages_that_are_gone_through(tmp_path):
    (tmp_path / "a.txt").write_text("Some words of a text.")
    values = scaled_down("distilbert_6l", tmp_path / "files")
    (stage,) = values["stages"].values()
    values["stages"] = {
        "words": {**stage, "corpus": [str(tmp_path / "a.txt")]},
        "idle": {**stage, "corpus": [str(tmp_path / "absent.txt")]},
    }
    values["variants"] = {"full": {"stages": ["words"]}}
    lines = corpora._corpus_lines(config.Recipe.model_validate(values), None)
    assert lines == ["Some words of a text."]


@pytest.fixture
def joint_batch(toy_vocab_file):
    """Makes the one batch of a joint stage: its features, and whether the stage has noise."""
    wordpiece = read_tokenizer(toy_vocab_file)
    words = "good bad film story play set alarm the".split()

    def make(*, pairs=True, stored=False, tokenizer=wordpiece, **joint):
        column = "other" if pairs else None
        task = tasks.TaskSpec("toy", "text", "label", pair_column=column, labels=("no", "yes"))
        texts = [f"{a} {b} it is not a good film" for a in words for b in words]
        others = [f"{b} {a}" for a in words for b in words] if pairs else None
        examples = tasks.Examples(task, texts, others, np.zeros(64, np.int32))
        encoded = batches.encode_examples(examples, tokenizer, 24)
        context = types.SimpleNamespace(task=task, tokenizer=tokenizer, texts=lambda **_: encoded)
        lesson = types.SimpleNamespace(
            data=types.SimpleNamespace(of_task=context),
            same_tokens=True,
            answers=lambda teacher, examples: np.zeros((64, 2), np.float32),
        )
        distiller = types.SimpleNamespace(needs_only_logits=lambda: stored, teacher="teacher")
        stage = config.new_stage("joint", batch_size=64, **joint)
        train = lessons.stage_batches(stage, lesson, 1, distiller)
        ((features, _),) = train.dataset().as_numpy_iterator()
        return features, lessons.has_noise(stage, train)

    return make


@pytest.mark.parametrize(
    ("pairs", "noise", "share"),
    [
        (False, {}, 0.75),  # less the texts of a low drawn rate
        (True, {"token_noise": 0, "pair_noise": 0.6}, 0.6),
        (True, {"token_noise": 0.01, "pair_noise": 0.6}, 0.6),
    ],
)
def test_texts_are_noisy_where_the_teacher_answers_during_the_training(
    pairs, noise, share, joint_batch
):
    plain, has_noise = joint_batch(pairs=pairs, token_noise=0, pair_noise=0)
    assert not has_noise
    noisy, has_noise = joint_batch(pairs=pairs, **noise)
    assert has_noise
    rows = (plain["input_ids"] != noisy["input_ids"]).any(axis=1)
    assert rows.mean() == pytest.approx(share - 0.05, abs=0.15)


def test_answers_that_are_stored_are_those_of_the_texts_as_they_are(joint_batch):
    plain, _ = joint_batch(token_noise=0, pair_noise=0)
    stored, has_noise = joint_batch(stored=True)
    assert not has_noise and "teacher_logits" in stored
    np.testing.assert_array_equal(plain["input_ids"], stored["input_ids"])
    with pytest.raises(errors.ConfigError, match=r"token_noise.*stored answers"):
        joint_batch(stored=True, token_noise=0.5)
    with pytest.raises(errors.ConfigError, match=r"piece_noise.*stored answers"):
        joint_batch(stored=True, tokenizer=unigrams.unigram(), piece_noise=0.5)
    with pytest.raises(errors.ConfigError, match=r"pair_noise.*without pairs"):
        joint_batch(pairs=False, pair_noise=0.5)


def test_pieces_of_a_unigram_are_cut_where_that_is_asked_for(joint_batch):
    options = {"pairs": False, "token_noise": 0}
    with pytest.raises(errors.ConfigError, match=r"piece_noise.*whole texts of a Unigram"):
        joint_batch(**options, piece_noise=0.5)
    tokenizer = unigrams.unigram()
    words = types.SimpleNamespace(
        pair_column=None, traits=types.SimpleNamespace(over_tokens=True, one_number=False)
    )
    tagged = types.SimpleNamespace(task=words, tokenizer=tokenizer)
    with pytest.raises(errors.ConfigError, match=r"piece_noise.*whole texts of a Unigram"):
        lessons._noisy(mock.Mock(), config.new_stage("joint", piece_noise=0.5), tagged, 1)
    plain, has_noise = joint_batch(**options, tokenizer=tokenizer)
    assert not has_noise
    cut, has_noise = joint_batch(**options, tokenizer=tokenizer, piece_noise=1.0)
    assert has_noise and cut["attention_mask"].sum() > plain["attention_mask"].sum()
    for before, after in zip(plain["input_ids"], cut["input_ids"], strict=True):
        first, second = ("".join(tokenizer.vocab[i] for i in ids) for ids in (before, after))
        assert first.replace("<pad>", "") == second.replace("<pad>", "")
