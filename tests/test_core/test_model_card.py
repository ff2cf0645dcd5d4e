"""README.md of exported folders: what the hub reads, and what a person has to know."""

import errno
import types

import huggingface_hub
import pytest

from tfdistill import manifest, results
from tfdistill.io import marker_file, work_folder
from tfdistill.results import model_card

TENSOR = manifest.TensorRecord(dtype="int32", shape=(1, 16))
LOGITS = manifest.TensorRecord(dtype="float32", shape=(1, 2))
BASELINE = results.BaselineResult(name="tfidf", metrics={"accuracy": 0.75})


def described(*, family="bert", kind="classification", metrics=None):
    """The manifest of a file that agrees with its model and may be scored."""
    return manifest.Manifest(
        name="moods",
        created="2026-01-01T00:00:00+00:00",
        tfdistill_version="0.1.0",
        converter="tensorflow 2.20.0",
        model=manifest.FileRecord(file="model.tflite", sha256="a" * 64, size_bytes=2_500_000),
        quantization="dynamic_wi8_afp32",
        signatures={
            "len16": manifest.SignatureRecord(
                sequence_length=16,
                inputs={"input_ids": TENSOR, "attention_mask": TENSOR},
                outputs={"logits": LOGITS},
            )
        },
        softmax=False,
        tokenizer=None,
        task=manifest.TaskRecord(name="mood", kind=kind, labels=("glad", "sad")),
        architecture=manifest.Architecture(
            family=family,
            num_layers=2,
            hidden_size=32,
            num_heads=2,
            intermediate_size=64,
            vocab_size=90,
            num_parameters=1_100_000,
        ),
        parity=manifest.Parity(
            num_examples=100,
            num_scored=100 if metrics else None,
            max_abs_error=0.1,
            mean_abs_error=0.01,
            sqnr_db=41.25,
            argmax_agreement=0.99,
            model_metrics=metrics or {},
            file_metrics={name: value - 0.01 for name, value in (metrics or {}).items()},
        ),
    )


SCORED = described(metrics={"accuracy": 0.91})


def timed(length, threads, p50_ms, *ends, busy=False):
    """A row of a measurement, as a card reads it."""
    return types.SimpleNamespace(
        sequence_length=length,
        threads=threads,
        p50_ms=p50_ms,
        p50_ci_ms=ends or (p50_ms, p50_ms),
        busy=busy,
    )


def metadata(text):
    return huggingface_hub.ModelCard(text).data


def test_the_hub_reads_the_figures_of_the_file_and_all_that_is_known():
    facts = model_card.CardFacts(base_model="a/bert", license="apache-2.0", language="en")
    data = metadata(model_card.of_file(SCORED, facts))

    assert (data.base_model, data.license, data.language) == ("a/bert", "apache-2.0", "en")
    assert data.pipeline_tag == "text-classification"
    assert {"tflite", "bert", "tfdistill"} <= set(data.tags)
    (score,) = data.eval_results
    assert (score.metric_type, score.metric_value, score.dataset_name) == ("accuracy", 0.9, "mood")


def test_a_checkpoint_has_the_figures_of_the_model_and_the_library_that_loads_it():
    text = model_card.of_checkpoint(SCORED, model_card.CardFacts(name="mine"))
    data = metadata(text)

    assert (data.library_name, data.model_name) == ("transformers", "mine") and "# mine\n" in text
    assert [score.metric_value for score in data.eval_results] == [0.91]


@pytest.mark.parametrize(
    ("kind", "pipeline"),
    [
        ("multi_label", "text-classification"),
        ("token", "token-classification"),
        ("span", "question-answering"),
        ("embedding", "sentence-similarity"),
    ],
)
def test_each_kind_of_task_has_its_pipeline(kind, pipeline):
    text = model_card.of_checkpoint(described(kind=kind, metrics={"f1": 0.5}))

    assert metadata(text).pipeline_tag == pipeline
    assert ("SentenceTransformer(" in text) == (kind == "embedding")


def test_what_is_not_known_is_left_out_and_said():
    text = model_card.of_file(described())

    assert metadata(text).to_dict().keys() == {"pipeline_tag", "tags"}
    assert "## Figures" not in text and "## Latency" not in text
    for limit in ("not scored", "not compared with baselines", "No licence", "was not measured"):
        assert limit in text


def test_the_figures_stand_beside_teacher_and_baselines_with_their_error():
    facts = model_card.CardFacts(teacher={"accuracy": 0.95}, baselines=[BASELINE])
    text = model_card.of_file(SCORED, facts)

    assert "| metric | set | this file | teacher | tfidf |" in text
    assert "| accuracy | development | 0.9000 | 0.9500 | 0.7500 |" in text
    assert "standard error of the accuracy: 0.0300" in text  # sqrt(0.9 * 0.1 / 100)
    (score,) = metadata(text).eval_results
    assert (score.dataset_split, score.metric_value) == ("validation", 0.9)
    assert "SQNR 41.2 dB, the same answer for 99.0%" in text


def test_where_there_is_a_test_set_its_figures_come_first_and_are_those_of_the_hub():
    tested = {"teacher": 0.97, "student": 0.88, "file": 0.84}
    facts = model_card.CardFacts(
        teacher={"accuracy": 0.95},
        baselines=[BASELINE],
        tested={role: {"accuracy": value} for role, value in tested.items()},
        num_tested=225,
        caveats=("3 of 225 test texts are training texts too.",),
    )
    text = model_card.of_file(SCORED, facts)
    (score,) = metadata(text).eval_results
    assert (score.dataset_split, score.metric_value) == ("test", 0.84)
    rows = [line for line in text.splitlines() if line.startswith("| accuracy")]
    assert rows == [
        "| accuracy | test | 0.8400 | 0.9700 |  |",
        "| accuracy | development | 0.9000 | 0.9500 | 0.7500 |",
    ]
    assert "On 225 test examples. One standard error of the accuracy: 0.0244" in text
    assert "- 3 of 225 test texts are training texts too." in text
    checkpoint = model_card.of_checkpoint(SCORED, facts)
    (score,) = metadata(checkpoint).eval_results
    assert (score.dataset_split, score.metric_value) == ("test", 0.88)
    del facts.tested["file"]  # of another file than was tested
    text = model_card.of_file(SCORED, facts)
    assert "| test |" not in text and metadata(text).eval_results[0].metric_value == 0.9


@pytest.mark.parametrize(
    ("kind", "cut", "agreement"),
    [
        (
            "classification",
            "cut after",
            "On 100 development examples: SQNR 41.2 dB, the same answer",
        ),
        ("embedding", "cut after", "examples: SQNR 41.2 dB, the same nearest text for 99.0%"),
        ("token", "read in parts of at most", "On 100 parts of development texts: SQNR 41.2 dB"),
        ("span", "read in parts of at most", "On 100 parts of development texts: SQNR 41.2 dB"),
    ],
)
def test_long_texts_and_agreement_are_told_as_the_kind_has_them(kind, cut, agreement):
    card = described(kind=kind)
    assert card.parity is not None
    if kind == "embedding":
        parity = card.parity.model_copy(update={"min_cosine": 0.98})
        card = card.model_copy(update={"parity": parity})
    latency = timed(16, 1, 0.5)
    facts = model_card.CardFacts(latency=[latency], text_ms={1: 0.5})
    text = model_card.of_file(card, facts)

    part = "text" if cut == "cut after" else "text's part"
    assert f"A development {part} takes 0.5 ms" in text
    assert f"- Texts are {cut} 16 tokens." in text
    assert agreement in text


@pytest.mark.parametrize(
    ("kind", "scored", "told"),
    [
        ("classification", 100, "On 100 development examples. One standard error of the accuracy"),
        ("token", 12, "On 12 development examples."),
        ("token", None, "On the development examples."),
        ("embedding", 50, "On 50 development pairs."),
    ],
)
def test_figures_are_of_what_was_scored_and_have_an_error_for_one_class_only(kind, scored, told):
    card = described(kind=kind, metrics={"accuracy": 0.91})
    assert card.parity is not None
    parity = card.parity.model_copy(update={"num_scored": scored})
    text = model_card.of_file(card.model_copy(update={"parity": parity}))
    assert told in text
    assert ("standard error" in text) == (kind == "classification")
    perfect = parity.model_copy(update={"file_metrics": {"accuracy": 1.0}})
    text = model_card.of_file(card.model_copy(update={"parity": perfect}))
    assert "standard error" not in text


def test_a_latency_comes_with_its_circumstances_and_a_host_is_no_phone():
    row = timed(16, 1, 0.5, 0.45, 0.6)
    facts = model_card.CardFacts(latency=[row], measured_on="host, no phone: a processor")
    on_phone = model_card.CardFacts(latency=[row], measured_on="phone: a phone", phone=True)

    text = model_card.of_file(SCORED, facts)
    assert "| 16 | 1 | 0.5 | 0.45 to 0.6 |\n\nhost, no phone: a processor" in text
    assert "says little about a phone" in text
    assert "says little about a phone" not in model_card.of_file(SCORED, on_phone)


def test_the_expected_time_of_a_text_follows_the_latencies():
    latency = [timed(32, 2, 1.5)]
    text = model_card.of_file(SCORED, model_card.CardFacts(latency=latency, text_ms={2: 1.234}))

    assert "A development text takes 1.23 ms on average\n(2 threads)" in text


def test_a_latency_of_a_busy_machine_says_so_in_its_cell():
    row = timed(16, 1, 0.5, 0.45, 0.6, busy=True)
    text = model_card.of_file(SCORED, model_card.CardFacts(latency=[row]))
    assert "| 16 | 1 | 0.5 (busy machine) | 0.45 to 0.6 |" in text


def test_figures_that_transformers_would_not_reach_are_not_claimed_there():
    tinybert = described(family="tinybert", metrics={"accuracy": 0.91})
    text = model_card.of_checkpoint(tinybert)

    assert metadata(text).eval_results is None and "0.91" not in text
    assert "no ReLU between pooler and classifier" in text
    assert metadata(model_card.of_file(tinybert)).eval_results is not None


def test_a_card_is_renewed_and_a_text_of_somebody_else_stays(tmp_path):
    path = model_card.write(tmp_path, model_card.of_file(described()))
    assert path == model_card.write(tmp_path, model_card.of_file(SCORED))
    assert "0.9000" in path.read_text("utf-8")

    path.write_text("# My own\n", "utf-8")
    assert model_card.write(tmp_path, model_card.of_file(SCORED)) is None
    assert path.read_text("utf-8") == "# My own\n"


def test_foreign_names_are_text_in_markdown_and_html():
    labels = ("a|b", "<script>x</script>", "two\nlines", "\u202eturned", "*bold*", "x" * 200)
    task = SCORED.task.model_copy(update={"labels": labels, "name": "# <b>mood</b>"})
    text = model_card.of_file(
        SCORED.model_copy(update={"task": task, "name": "# <i>m</i>\n"}),
        model_card.CardFacts(measured_on="<img src=x> | *here*", latency=[timed(16, 1, 0.5)]),
    )
    body = text.split("---\n", 2)[2].replace(model_card.MARK, "")
    assert "<" not in body.replace("&lt;", "") and "\u202e" not in body
    assert r"a\|b" in body and "two lines" in body and r"\*bold\*" in body
    assert "x" * 59 + "…" in body and "x" * 60 not in body
    assert metadata(text).model_name == "# <i>m</i>\n"  # YAML quotes by itself


def test_a_card_whose_entry_in_the_list_cannot_be_written_is_not_left_behind(tmp_path, monkeypatch):
    work_folder.WorkFolder(tmp_path, "hf").start()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(marker_file, "write_marker", full)
    with pytest.raises(OSError, match="No space"):
        model_card.write(tmp_path, model_card.of_file(described()))
    assert not (tmp_path / model_card.FILE_NAME).exists()
