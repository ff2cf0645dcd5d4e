"""A sentence encoder from a folder: distilled, measured on pairs, exported, evaluated."""

import json
import pathlib

import numpy as np
import pytest
import toys

from export.targets import token_vectors
from tfdistill import cli, config, errors, models, pruning, run, tasks, weights
from tfdistill.data import vocab
from tfdistill.run import task_models

pytestmark = pytest.mark.slow

WORDS = "how when where is the train bus ticket price open weather hot cold play stop".split()


def sentence(random):
    return " ".join(random.choice(WORDS, random.integers(3, 9)))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Pairs that share words, more or less, and a random teacher, whose vectors tell some of it."""
    folder = tmp_path_factory.mktemp("embedding")
    random = np.random.default_rng(0)
    (folder / "train.txt").write_text("\n".join(sentence(random) for _ in range(80)) + "\n")
    (folder / "more.txt").write_text("\n".join(sentence(random) for _ in range(20)) + "\n")
    rows = ["a\tb\tscore"]
    for _ in range(60):
        first = sentence(random).split()
        second = [w if random.random() < 0.5 else str(random.choice(WORDS)) for w in first]
        share = len({*first} & {*second}) / len({*first, *second})
        rows.append(f"{' '.join(first)}\t{' '.join(second)}\t{5 * share:.3f}")
    (folder / "dev.tsv").write_text("\n".join(rows) + "\n")
    tokens = [*("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), *WORDS]
    vocab.write_vocab(tokens, folder / "vocab.txt")
    shape = toys.SHALLOW_TEACHER.replace(vocab_size=len(tokens), max_positions=16, pooler=False)
    teacher = toys.randomise(models.build_embedder(shape, pooling="max"), 1)
    weights.save_hf(teacher, folder / "teacher", tokenizer=folder / "vocab.txt")
    return folder


def recipe(data, **student):
    section = {"task": "near", "kind": "embedding", "dir": str(data), "max_length": 12}
    section |= {"text_column": "a", "pair_column": "b", "label_column": "score"}
    section["unlabelled"] = [str(data / "more.txt")]
    return toys.one_stage(
        section,
        {"source": str(data / "teacher")},
        {"preset": "pruned:layers=1,width=8,heads=2,head_size=4", **student},
        {"kind": "embedding", "epochs": 2, "min_steps": 8},
        baselines="cheap",
        export={"lengths": [12]},
    )


@pytest.fixture(scope="module")
def done(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "near"
    return folder, run.distill_variant(recipe(data), folder)


@pytest.mark.spine
def test_the_student_embeds_as_its_teacher_does_into_the_same_space(done):
    folder, record = done
    student = weights.load_embedder(folder / record.model_folder).model
    expected = models.Head("embedding", 12, pooling="max", projection="linear")
    assert models.read_head(student) == expected
    assert models.config_of(student).hidden_size == 8


def test_it_learns_from_training_and_unlabelled_texts_and_is_measured_on_pairs(done):
    folder, record = done
    assert set(record.metrics) == {"spearman", "pearson"}
    assert record.num_examples == 60
    rows = (folder / "stages" / "only" / "seed-1" / "history.csv").read_text().splitlines()
    names = rows[0].split(",")
    assert {"vectors", "similarity", "val_spearman"} <= set(names)
    assert "hidden" not in names
    # 100 texts less repetitions in batches of 32 are 4 steps, 2 epochs of them.
    assert [row.split(",")[1] for row in rows[1:]] == ["4", "8"]


def test_its_baselines_are_vectors_without_a_network(done, data):
    _, record = done
    correlations = {row.name: row.metrics["spearman"] for row in record.baselines}
    assert set(correlations) == {"tfidf_cosine", "mean_word_vectors"}
    assert correlations["tfidf_cosine"] > 0.5  # the gold numbers are shares of common words
    examples = tasks.load_examples(recipe_task(), data, "dev")
    table = weights.load_embedder(data / "teacher").model.get_layer("word_embeddings")
    table = table.get_weights()[0]

    def mean(text):
        return np.mean([table[5 + WORDS.index(word)] for word in text.split()], axis=0)

    rows = [mean(text) for text in examples.texts]
    rows = [row / np.linalg.norm(row) for row in rows]
    cosines = np.sum(np.multiply(rows[0::2], rows[1::2]), axis=1)
    import scipy.stats

    expected = scipy.stats.spearmanr(cosines, examples.labels[0::2]).statistic
    assert correlations["mean_word_vectors"] == pytest.approx(expected, abs=1e-4)


def recipe_task():
    return tasks.TaskSpec("near", "a", "score", "b", kind="embedding")


def test_a_pruned_start_is_nearer_to_its_teacher_than_a_random_one(data):
    teacher = weights.load_embedder(data / "teacher").model
    shape = models.config_of(teacher).replace(
        num_layers=1, hidden_size=8, num_heads=2, head_size=4, intermediate_size=8
    )
    random = np.random.default_rng(3)
    ids = random.integers(5, 20, (24, 7)).astype(np.int32)
    features = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    features["token_type_ids"] = np.zeros_like(ids)
    head = task_models.embedding_head(config.StudentConfig(preset="pruned:layers=1"), teacher)
    cosines = {}
    for start in ("random", "pruned"):
        student = models.build_model(shape, head)
        if start != "random":
            pruning.initialise_by_pruning(student, teacher, [features])
        vectors = [model(features).numpy() for model in (teacher, student)]
        cosines[start] = float(np.mean(np.sum(vectors[0] * vectors[1], axis=1)))
    assert cosines["pruned"] > 0.8 > cosines["random"] + 0.2, cosines


@pytest.fixture(scope="module")
def shipped(done, tmp_path_factory):
    """The run's file, and a folder of assets with its bundle."""
    place = tmp_path_factory.mktemp("shipped")
    out, assets = str(place / "export"), str(place / "assets")
    command = ["export", str(done[0]), "--quantize", "float32", "--out", out, "--android", assets]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_vectors, "tokenizer_edge_cases", lambda: ["how is it"])
        assert cli.main(command) == 0
    return out, assets


@pytest.mark.spine
def test_questions_are_indexed_for_the_app_and_answered(shipped, tmp_path, capsys):
    """The commands of docs/guides/faq.md, on generated questions."""
    out, assets = shipped
    random = np.random.default_rng(4)
    questions = sorted({sentence(random) for _ in range(40)})
    rows = [f"{question},answer {number}" for number, question in enumerate(questions)]
    (tmp_path / "faq.csv").write_text("\n".join(["question,answer", *rows]) + "\n")
    command = ["index", str(tmp_path / "faq.csv"), "--model", out, "--text-column", "question"]
    assert cli.main([*command, "--answer-column", "answer", "--out", assets, "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    (bundle,) = pathlib.Path(assets).glob("bundles/*/")
    assert written["folder"] == str(bundle / "search") and written["count"] == len(questions)
    for number in (0, 7):
        assert cli.main(["index", written["folder"], "--query", questions[number], "--json"]) == 0
        matches = json.loads(capsys.readouterr().out)["matches"]
        assert (matches[0]["answer"], matches[0]["text"]) == (f"answer {number}", questions[number])
        assert matches[0]["score"] == pytest.approx(1, abs=1e-12)
    assert cli.main([*command, "--out", assets]) == 2  # nothing is overwritten
    assert "search" in capsys.readouterr().err


@pytest.mark.spine
def test_a_run_is_exported_and_its_file_evaluated(done, shipped, data, capsys):
    folder, record = done
    out = shipped[0]
    parity = json.loads((pathlib.Path(out) / "model.json").read_text())["parity"]
    assert parity["argmax_agreement"] == 1
    columns = ["--text-column", "a", "--pair-column", "b", "--label-column", "score"]
    data_options = ["--task", "near", "--kind", "embedding", "--data-dir", str(data), *columns]
    for source in (out, str(folder)):
        assert cli.main(["evaluate", source, *data_options, "--json"]) == 0
        metrics = json.loads(capsys.readouterr().out)
        assert metrics["spearman"] == pytest.approx(record.metrics["spearman"], abs=1e-3)


@pytest.mark.parametrize(("size", "projection"), [(None, "linear"), (8, None), (5, "linear")])
def test_vectors_are_as_wide_as_the_teachers_or_as_the_recipe_says(data, size, projection):
    teacher = weights.load_embedder(data / "teacher").model
    settings = config.StudentConfig(preset="pruned:layers=1", vector_size=size)
    head = task_models.embedding_head(settings, teacher)
    shape = models.config_of(teacher).replace(hidden_size=8, num_heads=2)
    built_head = models.read_head(models.build_model(shape, head))
    assert (built_head.num_labels, built_head.projection) == (size or 12, projection)
    assert (built_head.pooling, built_head.normalize) == ("max", True)


def test_a_plain_encoder_is_no_teacher(data, tmp_path):
    plain = tmp_path / "plain"
    weights.save_hf(weights.load_encoder(data / "teacher"), plain, tokenizer=data / "vocab.txt")
    usual = recipe(data)
    teacher = usual.teacher.model_copy(update={"source": str(plain)})
    changed = usual.model_copy(update={"teacher": teacher})
    with pytest.raises(errors.WeightsError):
        run.distill_variant(changed, tmp_path / "run")
