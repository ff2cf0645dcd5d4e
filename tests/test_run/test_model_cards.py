"""What a run knows goes into the cards of what it exported."""

import benchmark_results
import pytest

from tfdistill import config, manifest, results
from tfdistill.benchmark import result
from tfdistill.results import model_card
from tfdistill.run import model_cards


@pytest.fixture
def run(tmp_path):
    """The files of a finished run: an exported student, its figures, its latency."""
    recipe = config.load_recipe("demo", ["teacher.source=google/bert_uncased"])
    (tmp_path / "recipe.yaml").write_text(config.dump_recipe(recipe))
    file = benchmark_results.model_file(accuracy=0.5).manifest
    signature = manifest.SignatureRecord(
        sequence_length=32,
        inputs={"input_ids": manifest.TensorRecord(dtype="int32", shape=(1, 32))},
        outputs={"logits": manifest.TensorRecord(dtype="float32", shape=(1, 2))},
    )
    file = file.model_copy(update={"signatures": {"len32": signature}})
    (tmp_path / "export").mkdir()
    (tmp_path / "student" / "hf").mkdir(parents=True)
    manifest.write_manifest(file, tmp_path / "export")
    teacher = results.ModelResult(name="teacher", role="teacher", metrics={"accuracy": 0.875})
    baseline = results.BaselineResult(name="tfidf", metrics={"accuracy": 0.25})
    exported = results.ExportedFile(name="student", of="s", manifest="export/model.json")
    metrics = results.RunMetrics(
        recipe="toy",
        format_version=1,
        synthetic_data=True,
        models=(teacher,),
        baselines=(baseline,),
        exports=(exported,),
    )
    results.write_result_file(metrics, tmp_path / results.METRICS_FILE)
    measured = benchmark_results.measurement([1.2, 1.25, 1.3])
    result.write_result(benchmark_results.assembled([measured]), tmp_path / "benchmark.json")
    return tmp_path


def test_the_cards_of_a_run_have_teacher_baselines_latency_and_warnings(run):
    metrics = results.read_result_file(run / results.METRICS_FILE, results.RunMetrics)
    model_cards.write_all(run, metrics.exports)

    text = (run / "export" / model_card.FILE_NAME).read_text("utf-8")
    assert "| accuracy | development | 0.5000 | 0.8750 | 0.2500 |" in text
    assert "| 32 | 1 | 1.25 |" in text and "host, no phone: A processor" in text
    assert "base_model: google/bert_uncased" in text
    assert "generated data" in text
    checkpoint = (run / "student" / "hf" / model_card.FILE_NAME).read_text("utf-8")
    assert "library_name: transformers" in checkpoint and "## Latency" not in checkpoint


def test_the_latency_of_another_file_is_not_taken(run):
    file = manifest.read_manifest(run / "export", verify=False)
    other = file.model.model_copy(update={"sha256": "b" * 64})

    assert model_cards.evidence(run, file).latency
    assert not model_cards.evidence(run, file.model_copy(update={"model": other})).latency


@pytest.mark.parametrize("source", ["/home/name/bert", "preset:bert_mini", "~/bert", "../bert"])
def test_a_path_of_a_teacher_is_not_published(source):
    assert model_cards._hub_id(source) is None


def test_of_another_folder_nothing_is_known(tmp_path):
    assert model_cards.evidence(tmp_path) == model_card.CardFacts()
