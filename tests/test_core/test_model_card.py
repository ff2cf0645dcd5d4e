"""README.md of exported folders: what the hub reads, and what a person has to know."""

import pathlib
import types

import golden_page
import huggingface_hub
import pytest

from tfdistill import manifest, results
from tfdistill.manifest import confidence
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
        tokenizer=manifest.TokenizerRecord(
            vocab=manifest.FileRecord(file="vocab.txt", sha256="b" * 64, size_bytes=700),
            vocab_size=90,
            lower_case=False,
            max_length=16,
        ),
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


def of_a_test_set():
    tested = {"teacher": 0.97, "student": 0.88, "file": 0.84}
    return model_card.CardFacts(
        teacher={"accuracy": 0.95},
        baselines=[BASELINE],
        tested={role: {"accuracy": value} for role, value in tested.items()},
        num_tested=225,
        caveats=("3 of 225 test texts are training texts too.",),
    )


def with_everything():
    """A file for two devices, with promises and all that a card tells of its measurement."""
    sure = {"threshold": 0.75, "coverage": 0.84, "error": 0.02, "others": 90, "others_sure": 0.03}
    promising = confidence.Confidence.of_file(
        "a" * 64,
        temperature=1.5,
        num_examples=300,
        promises=(
            {"max_error": 0.01, "rows": 400, "rows_needed": 900},
            {"max_error": 0.05, "rows": 400, **sure},
        ),
        agreements=(
            {"max_disagreement": 0.01, "rows": 200, "rows_needed": 230},
            {
                "max_disagreement": 0.02,
                "rows": 200,
                "threshold": 0.9,
                "coverage": 0.625,
                "disagreement": 0.005,
                "requests": 0.75,
            },
        ),
        answered_by="a decision model 2.1",
        answered_labels=150,
    )
    whole = SCORED.model_dump(mode="json")
    shared = {key: whole[key] for key in ("signatures", "parity")}
    file = {**whole["model"], "file": "model-gpu.tflite"}
    whole["variants"] = {"gpu": {**shared, "model": file, "quantization": "float32"}}
    card = manifest.Manifest.model_validate(whole)
    return card.model_copy(update={"confidence": promising, "least_runtime": "2.18"})


MEASURED = model_card.CardFacts(
    name="mine",
    base_model="a/bert",
    license="apache-2.0",
    language="en",
    synthetic=True,
    latency=[timed(16, 1, 0.5, 0.45, 0.6), timed(32, 2, 12.345, busy=True)],
    text_ms={2: 1.234},
    measured_on="host, no phone: a processor",
)
ON_PHONE = model_card.CardFacts(
    latency=[timed(16, 1, 0.5)], text_ms={1: 0.5}, measured_on="phone: a phone", phone=True
)
TAGS = described(kind="token", metrics={"f1": 0.5})
CARDS = {
    "bare": lambda: model_card.of_file(described()),
    "with_everything": lambda: model_card.of_file(with_everything(), MEASURED),
    "tested": lambda: model_card.of_file(SCORED, of_a_test_set()),
    "tested_checkpoint": lambda: model_card.of_checkpoint(SCORED, of_a_test_set()),
    "tags": lambda: model_card.of_file(TAGS, ON_PHONE),
    "vectors": lambda: model_card.of_checkpoint(described(kind="embedding", metrics={"mrr": 0.5})),
    "tinybert": lambda: model_card.of_checkpoint(  # whose figures transformers would not reach
        described(family="tinybert", metrics={"accuracy": 0.91})
    ),
}


@pytest.mark.parametrize("name", CARDS)
def test_a_card_is_the_page_of_its_name(name):
    """See tests/golden_page.py."""
    golden_page.check(CARDS[name](), pathlib.Path(__file__).parent / "cards" / f"{name}.md")


def test_a_test_set_gives_the_figures_of_the_hub_and_a_checkpoint_those_of_its_model():
    (score,) = metadata(model_card.of_file(SCORED, of_a_test_set())).eval_results
    assert (score.dataset_split, score.metric_value) == ("test", 0.84)
    facts = of_a_test_set()
    del facts.tested["file"]
    text = model_card.of_file(SCORED, facts)
    assert "| test |" not in text and metadata(text).eval_results[0].metric_value == 0.9
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
