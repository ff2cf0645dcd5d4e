"""`tfdistill export` with its options, from a Hugging Face folder to every way out."""

import argparse
import contextlib
import dataclasses
import io
import json

import numpy as np
import pytest
import toys

import export
from export.targets import android_bundle
from tfdistill import cli, config, manifest, models, weights
from tfdistill.commands import export as export_command
from tfdistill.commands import export_job
from tfdistill.io import work_folder
from tfdistill.run import inputs
from tfdistill.tokenization.reading import read_tokenizer

WORDS = "the a it is not good bad film story play".split()


@pytest.fixture(scope="module")
def place(tmp_path_factory, toy_vocab_file):
    """A DistilBERT, a film task of two labels, and a corpus of a few words."""
    root = tmp_path_factory.mktemp("command")
    size = len(read_tokenizer(toy_vocab_file).vocab)
    config = toys.SHALLOW_STUDENT.replace(
        family="distilbert",
        vocab_size=size,
        max_positions=24,
        pooler=False,
        type_vocab_size=0,
    )
    model = toys.classifier(config, 2)
    weights.save_hf(model, root / "student", labels=["bad", "good"], tokenizer=toy_vocab_file)
    random = np.random.default_rng(0)
    (root / "data").mkdir()
    for name, count in (("train", 40), ("dev", 24)):
        rows = [" ".join(random.choice(WORDS, random.integers(2, 9))) for _ in range(count)]
        lines = [f"{text}\t{('bad', 'good')[i % 2]}\n" for i, text in enumerate(rows)]
        (root / "data" / f"{name}.tsv").write_text("text\tlabel\n" + "".join(lines))
    (root / "corpus.txt").write_text(" ".join(WORDS) + "\n")
    return root


def test_no_length_is_beyond_the_tokens_that_the_tokenizer_allows(place):
    source = dataclasses.replace(inputs.open_source(str(place / "student")), limit=9)
    settings = config.DataConfig(task="films", max_length=24)
    job = export_job.Job(source, settings, None, None, None, place)
    assert job.lengths == (9,)
    assert dataclasses.replace(job, source=dataclasses.replace(source, limit=None)).lengths == (24,)
    assert dataclasses.replace(job, settings=None).lengths == (9,)  # without a task
    shape = toys.TEACHER.replace(max_positions=64)
    several = dataclasses.replace(source, limit=40, model=toys.classifier(shape, 2))
    assert dataclasses.replace(job, settings=None, source=several).lengths == (32,)


def arguments(place, out, *more):
    return [
        *("export", str(place / "student"), "--out", str(out), "--lengths", "8,16"),
        *("--task", "films", "--data-dir", str(place / "data")),
        *("--text-column", "text", "--label-column", "label", "--json", "--allow-weak", *more),
    ]


@pytest.fixture(scope="module")
def everything(place, few_edge_cases, tmp_path_factory):
    """One call that writes every form of a student whose vocabulary is pruned."""
    out = tmp_path_factory.mktemp("out")
    names = {"android": "assets", "saved_model": "saved", "keras": "student.keras", "hf": "hf"}
    ways = {way: out / name for way, name in names.items()}
    options = [
        part for way, path in ways.items() for part in (f"--{way.replace('_', '-')}", str(path))
    ]
    options += ["--vocab-prune", str(place / "corpus.txt"), "--name", "films", "--softmax"]
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        assert cli.main(arguments(place, out / "export", *options)) == 0
    return out, ways, json.loads(shown.getvalue())


@pytest.mark.slow
def test_every_way_out_is_written_and_named(everything):
    _, ways, result = everything
    bundle = ways["android"] / "bundles" / "films-dynamic_wi8_afp32"
    written = {**ways, "android": bundle}
    assert result["also_written"] == {way: str(path) for way, path in written.items()}
    assert result["name"] == "films"
    android_bundle.read_index(ways["android"], verify=True)


@pytest.mark.slow
def test_all_forms_answer_alike(everything, place, toy_vocab_file):
    import keras as keras3
    import tensorflow as tf

    from tfdistill.tflite import TfliteModel

    out, ways, _ = everything
    card = manifest.read_manifest(out / "export")
    texts = ["the film is good", "it is not a bad story", "play the play"]
    tokenizer = read_tokenizer(out / "export" / card.tokenizer.vocab.file)
    rows = tokenizer.encode_batch(texts)
    file = TfliteModel(out / "export" / card.model.file)
    from_file = np.stack([file.predict(rows.row(i), np.zeros(len(rows.row(i)))) for i in range(3)])
    logits = card.confidence.temperature_inside * np.log(from_file)
    from_file = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)  # as the others: without

    served = tf.saved_model.load(str(ways["saved_model"])).signatures["serving_text"]
    scores = served(text=tf.constant(texts))["scores"].numpy()
    np.testing.assert_allclose(scores, from_file, atol=0.03)  # int8 against float32
    assert scores.std() > 0.1

    student = keras3.saving.load_model(ways["keras"], compile=False)
    loaded = weights.load_classifier(str(ways["hf"]))
    for i, score in enumerate(scores):
        ids = rows.row(i)[None]
        features = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        for model in (student, loaded.model):
            logits = np.asarray(model(features))
            np.testing.assert_allclose(tf.nn.softmax(logits)[0], score, atol=1e-5)


@pytest.mark.slow
def test_the_pruned_vocabulary_goes_everywhere_and_changes_no_answer(everything, place):
    out, ways, result = everything
    report = result["vocabulary"]
    assert report["tokens"] < report["tokens_before"]
    assert report["num_texts"] == 24 and report["num_changed"] == 0
    assert result["architecture"]["vocab_size"] == report["tokens"]
    vocab = (out / "export" / "vocab.txt").read_text()
    assert len(vocab.split()) == report["tokens"]
    assert (ways["hf"] / "vocab.txt").read_text() == vocab
    assert (ways["saved_model"] / "assets" / "vocab.txt").read_text() == vocab
    (bundle,) = (path for path in (ways["android"] / "bundles").iterdir() if path.is_dir())
    assert (bundle / "vocab.txt").read_text() == vocab


@pytest.fixture
def unopened(monkeypatch):
    """Fails where the model is opened, which is long work."""
    monkeypatch.setattr("tfdistill.commands.export_job.open_job", lambda *_: pytest.fail("opened"))


@pytest.mark.parametrize(
    ("option", "mark", "kind"),
    [
        ("--saved-model", "saved/saved_model.pb", "SavedModel"),
        ("--keras", "student.keras", None),
        ("--hf", "hf/model.safetensors", "Hugging Face folder"),
        ("--android", "assets/bundles/films-dynamic_wi8_afp32/model.json", None),
    ],
)
def test_what_is_there_is_refused_before_the_long_work(
    option, mark, kind, place, tmp_path, unopened, capsys
):
    way = tmp_path / mark.split("/")[0]
    if kind is not None:
        work_folder.WorkFolder(way, kind).path.mkdir()
        work_folder.WorkFolder(way, kind).start()
    (tmp_path / mark).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / mark).write_text("there")
    command = arguments(place, tmp_path / "other", option, str(way), "--name", "films")
    assert cli.main(command) == 2
    assert "overwrite" in capsys.readouterr().err
    if kind is not None:  # the file is not in the list
        assert cli.main([*command, "--overwrite"]) == 2
        assert mark.split("/")[1] in capsys.readouterr().err
    assert (tmp_path / mark).read_text() == "there"


@pytest.mark.parametrize(
    ("file", "fault"),
    [
        ("my model.tflite", "a file of letters, digits"),
        ("out/model.tflite", "--mediapipe: expected another file"),
    ],
)
def test_a_copy_that_cannot_be_written_is_refused_before_the_long_work(
    place, tmp_path, unopened, capsys, file, fault
):
    command = arguments(place, tmp_path / "out", "--mediapipe", str(tmp_path / file))
    assert cli.main(command) == 2
    assert fault in capsys.readouterr().err


def test_a_run_that_has_a_file_gets_the_next_one_beside_it(unopened, tmp_path, capsys):
    (tmp_path / "export").mkdir()
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    command = ["export", str(tmp_path), "--quantize", "float16"]
    for more, name in (
        (["--quantize", "float16"], "export-float16"),
        (["--quantize", "float16", "--overwrite"], "export"),
        (["--size-mb", "4"], "export-4mb"),  # which chooses its format itself
        (["--size-mb", "3.25"], "export-3.25mb"),
    ):
        options = cli.parser().parse_args(["export", str(tmp_path), *more])
        assert export_command._target(options) == tmp_path / name
    with work_folder.WorkFolder(tmp_path / "export-float16", "export").open():
        (tmp_path / "export-float16" / "model.tflite").write_text("there")
    assert cli.main(command) == 2
    assert "Use --overwrite" in capsys.readouterr().err


def exit_code(command):
    try:
        return cli.main(command)
    except SystemExit as stopped:
        return stopped.code


class Recorder:
    """Stands for the exporter: keeps what it is called with."""

    def __init__(self, monkeypatch):
        self.calls = []
        for name in ("to_tflite", "auto"):
            monkeypatch.setitem(export.__dict__, name, self._record(name))

    def _record(self, name):
        def call(model, path, **options):
            self.calls.append((name, options))
            raise KeyboardInterrupt

        return call


@pytest.mark.parametrize(
    ("options", "function", "expected"),
    [
        ([], "to_tflite", {"quantize": "dynamic_wi8_afp32", "layers": None}),
        (
            ["--layers", "layer_0_*=float16", "--layers", "classifier=float32"],
            "to_tflite",
            {"layers": {"layer_0_*": "float16", "classifier": "float32"}},
        ),
        (
            ["--quantize", "static_wi8_ai8", "--calibrate", "20", "--seed", "3"],
            "to_tflite",
            {"num_calibration": 20, "seed": 3},
        ),
        (
            ["--quantize", "auto", "--max-drop", "0.2"],
            "auto",
            {"max_drop": 0.2, "prefer": "size", "measure": None},
        ),
        (["--quantize", "auto", "--prefer", "latency"], "auto", {"max_drop": 0.01}),
        (["--for", "gpu"], "to_tflite", {"device": "gpu", "variants": {}, "name": "student"}),
        (
            ["--for", "gpu:float32,cpu", "--quantize", "dynamic_wi4_afp32"],
            "to_tflite",
            {
                "device": "cpu",
                "quantize": "dynamic_wi4_afp32",
                "variants": {"gpu": "float32"},
            },
        ),
    ],
)
def test_options_reach_the_exporter(options, function, expected, place, tmp_path, monkeypatch):
    recorder = Recorder(monkeypatch)
    assert cli.main(arguments(place, tmp_path, *options)) == 130
    ((name, received),) = recorder.calls
    assert name == function
    assert {key: received[key] for key in expected} == expected
    assert received["lengths"] == (8, 16)
    named = {"--calibrate": "num_calibration", "--seed": "seed"}  # otherwise the function's default
    for option, argument in named.items():
        assert (argument in received) == (option in options)
    assert received["labels"] == ("bad", "good") and len(received["check_on"]) == 24
    calibrated = received["calibrate_on"] is not None
    assert calibrated == ("--quantize" in options and "--for" not in options)
    if calibrated:
        assert len(received["calibrate_on"]) == 40
    if function == "auto":
        assert callable(received["report"])
        assert callable(received["measure"]) == ("latency" in options)


@pytest.mark.parametrize(
    ("options", "faults"),
    [
        (["--quantize", "int7"], ["--quantize: expected a known name"]),
        (["--for", "cpu,gpu:float16"], ["--for for gpu: expected float32, dynamic_wi8_afp32"]),
        (["--for", "cpu,gpu", "--quantize", "auto"], ["--for: expected cpu with --quantize auto"]),
        (["--quantize", "weight_only_wi4_afp32"], ["Take dynamic_wi4_afp32"]),
        (["--layers", "x=float32", "--quantize", "auto"], ["auto chooses the layers"]),
        (["--layers", "x=float33"], ["Did you mean 'float32'?"]),
        (["--layers", "layer_0"], ["'layer_0_*=float32'"]),
        (["--max-drop", "0.1"], ["--max-drop: expected --quantize auto"]),
        (["--prefer", "size"], ["--prefer: expected --quantize auto"]),
        (["--calibrate", "100"], ["--calibrate: expected a static quantization or auto"]),
        (["--seed", "1"], ["--seed: expected a static quantization or auto"]),
        (["--quantize", "int8", "--max-drop", "1", "--seed", "1"], ["--max-drop: ", "--seed: "]),
        (["--quantize", "auto", "--calibrate", "0"], ["at least 1 example"]),
        (["--size-mb", "-1"], ["--size-mb: expected a size above 0 MB, received -1.0"]),
        (["--size-mb", "1", "--quantize", "auto"], ["--size-mb: expected no --quantize auto"]),
        (["--size-mb", "1", "--layers", "x=float32"], ["--size-mb: expected no --layers"]),
        (["--size-mb", "1", "--vocab-prune", "c.txt"], ["--size-mb: expected no --vocab-prune"]),
        (["--size-mb", "1", "--for", "gpu"], ["--size-mb: expected no --for"]),
    ],
)
def test_options_that_contradict_each_other_are_misuse(options, faults, place, tmp_path, capsys):
    assert exit_code(arguments(place, tmp_path, *options)) == 2
    told = capsys.readouterr().err
    assert [fault for fault in faults if fault not in told] == []
    assert list(tmp_path.iterdir()) == []


NAME = "name of a bundle: expected up to 99 of"
UNFIT = {
    # The texts have 4 to 10 tokens.
    "length": (["--lengths", "3,16"], "an Android bundle: expected at least the 4 tokens"),
    "a mark first": (["--name", "_x"], NAME),
    "a letter": (["--name", "müsic", "--quantize", "auto"], NAME),
    "long": (["--name", "a" * 100, "--size-mb", "1"], NAME),
}


@pytest.mark.parametrize(("options", "fault"), UNFIT.values(), ids=UNFIT)
def test_a_bundle_that_cannot_be_is_refused_before_the_conversion(
    options, fault, place, tmp_path, monkeypatch, capsys
):
    recorder = Recorder(monkeypatch)
    command = arguments(place, tmp_path / "export", "--android", str(tmp_path / "assets"), *options)
    assert cli.main(command) == 2
    assert fault in capsys.readouterr().err
    assert not recorder.calls


@pytest.mark.parametrize(
    ("option", "message"),
    [("--android", "a task with texts"), ("--hf", "ReLU"), ("--data-dir", "--task too")],
)
def test_a_way_that_the_model_cannot_go_is_refused_before_the_conversion(
    option, message, toy_vocab_file, tmp_path, monkeypatch, capsys
):
    recorder = Recorder(monkeypatch)
    size = len(read_tokenizer(toy_vocab_file).vocab)
    config = toys.SHALLOW_STUDENT.replace(family="tinybert", vocab_size=size)
    model = models.build_classifier(config, 2)
    tiny = weights.save_hf(model, tmp_path / "tiny", tokenizer=toy_vocab_file)
    command = ["export", str(tiny), "--lengths", "8", option, str(tmp_path / "way")]
    assert cli.main(command) == 2
    assert message in capsys.readouterr().err
    assert not recorder.calls


@pytest.mark.parametrize("text", ["gpu,npu", "gpu,gpu", "cpu,gpu:", "", "cpu,"])
def test_devices_are_known_ones_and_different(text):
    with pytest.raises(argparse.ArgumentTypeError, match="expected different ones of cpu, gpu,"):
        export_command._devices(text)


@pytest.mark.slow
def test_the_result_is_json_or_lines(place, tmp_path, exported, monkeypatch, capsys):
    card = exported("dynamic_wi8_afp32").card
    monkeypatch.setitem(export.__dict__, "to_tflite", lambda *_, **__: card)
    command = arguments(place, tmp_path / "out", "--hf", str(tmp_path / "hf"))
    assert cli.main(command) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["also_written"] == {"hf": str(tmp_path / "hf")}
    described = {key: value for key, value in result.items() if key in card.model_dump()}
    assert manifest.Manifest.model_validate(described) == card

    command.remove("--json")
    assert cli.main([*command, "--overwrite"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(str(tmp_path / "out" / "model.tflite:")) and lines[0].endswith("kB")
    assert f"hf: {tmp_path / 'hf'}" in lines
    (checked,) = [line for line in lines if line.startswith("checked on ")]
    assert checked.startswith(f"checked on {card.parity.num_examples} {card.parity.inputs} inputs")
    assert f"(at least {card.parity.bounds['sqnr_db']:g})" in checked
    assert not any("{" in line for line in lines)


def test_a_model_near_chance_is_refused_before_it_is_converted(
    place, tmp_path, monkeypatch, capsys
):
    converted = []

    def convert(plan, *_, **__):
        converted.append(models.config_of(plan.model).vocab_size)
        raise KeyboardInterrupt

    monkeypatch.setattr("export.conversion.convert.convert", convert)
    command = arguments(place, tmp_path / "out")
    assert cli.main([part for part in command if part != "--allow-weak"]) == 1
    said = capsys.readouterr().err
    assert "chance is 0.500" in said and "--allow-weak" in said
    assert not converted
    assert cli.main(command) == 130 and len(converted) == 1


def test_a_model_is_judged_with_the_vocabulary_that_it_is_left_with(place, tmp_path, monkeypatch):
    judged = []

    def answer(model, *_, **__):
        judged.append(models.config_of(model).vocab_size)
        raise KeyboardInterrupt

    monkeypatch.setattr("export.targets.tflite.model_logits", answer)
    command = arguments(place, tmp_path / "out", "--vocab-prune", str(place / "corpus.txt"))
    assert cli.main([part for part in command if part != "--allow-weak"]) == 130
    (size,) = judged
    assert size < models.config_of(weights.load_classifier(place / "student").model).vocab_size


@pytest.mark.slow
def test_a_size_is_kept_and_its_cost_is_told_in_one_line(place, toy_vocab_file, tmp_path, capsys):
    plain, small, student = tmp_path / "plain", tmp_path / "small", tmp_path / "student"
    before = models.config_of(weights.load_classifier(place / "student").model)
    model = toys.classifier(before.replace(hidden_size=64, num_heads=2), 2)  # a table to shrink
    weights.save_hf(model, student, labels=["bad", "good"], tokenizer=toy_vocab_file)

    def export_to(out, *more):
        return cli.main(["export", str(student), *arguments(place, out, *more)[2:]])

    assert export_to(plain) == 0
    limit = (manifest.read_manifest(plain).model.size_bytes - 2000) / 1e6
    more = ("--size-mb", f"{limit:.6f}", "--max-drop", "0.5", "--hf", str(tmp_path / "hf"))
    assert export_to(small, *more) == 0

    card = manifest.read_manifest(small)
    assert card.model.size_bytes <= 1e6 * limit
    told = capsys.readouterr().err
    assert f"(at most {limit:g} MB); " in told and "accuracy of the file " in told
    # What else is written has the words of the file.
    words = (tmp_path / "hf" / "vocab.txt").read_text()
    assert words == (small / card.tokenizer.vocab.file).read_text()
