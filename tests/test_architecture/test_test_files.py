"""Every module has a test file of its name, or the table says which one covers it."""

import pathlib

ROOT = pathlib.Path(__file__).parents[2]

# Test file or folder -> the modules that it covers, without ".py".
COVERED_BY = {
    "test_tflite/test_reader.py": "tfdistill/tflite/flatbuffer",
    "test_manifest.py": "tfdistill/manifest/parts",
    "test_analysis/test_promises.py": "tfdistill/tasks/probabilities",
    "test_architecture/test_seventh_kind.py": "tfdistill/tasks/registry",
    "test_data/test_spans.py": "tfdistill/data/windows",
    "test_core/test_files.py": "tfdistill/io/locks",
    "test_benchmark_adb/test_device_environment.py": "tfdistill/benchmark/adb/device_backend",
    "test_weights/test_roberta.py": "tfdistill/tokenization/library",
    "test_export/test_quantize_aware.py": "export/checking/carried",
    "test_export/test_keras3.py": "export/targets/keras3_checks",
    "test_export/test_android_bundle.py": "export/targets/android_bundle_checks",
    "test_export/test_mediapipe.py": "export/targets/mediapipe_checks",
    "test_export/test_saved_model.py": "export/targets/saved_model_checks",
    "test_weights/test_folder_checks.py": "tfdistill/weights/in_transformers",
    "test_core": (
        "tfdistill/config/recipe tfdistill/config/recipe_files tfdistill/config/schema "
        "tfdistill/config/sections tfdistill/config/stage_kinds tfdistill/config/training "
        "tfdistill/io/contents"
    ),
    "test_architecture/test_packaging.py": "tfdistill/__main__ tfdistill/_version",
    "test_data/test_tasks.py": "tfdistill/tasks/builtin tfdistill/tasks/kind tfdistill/tasks/spec",
    "test_data/test_metrics.py": "tfdistill/tasks/tags",
    "test_data/test_label_cells.py": "tfdistill/tasks/label_kinds",
    "test_data/test_batches.py": "tfdistill/tasks/encoded tfdistill/data/streaming",
    "test_tokenization/test_wordpiece.py": (
        "tfdistill/tokenization/unicode_classes tfdistill/tokenization/edge_cases"
    ),
    "test_data/test_model_answers.py": "tfdistill/data/promise_rows",
    "test_data/test_shards.py": "tfdistill/data/shard_files",
    "test_models/test_bert.py": "tfdistill/models/layer_factory tfdistill/models/layers",
    "test_models/test_heads.py": "tfdistill/models/classifiers",
    "test_models/test_config.py": "tfdistill/models/flops tfdistill/models/presets",
    "test_weights/test_checkpoint.py": (
        "tfdistill/weights/filling tfdistill/weights/head_checks tfdistill/weights/hf_config "
        "tfdistill/weights/keys tfdistill/weights/load tfdistill/weights/save"
    ),
    "test_weights/test_garden.py": "tfdistill/weights/garden_keys",
    "test_compress": "tfdistill/compress/ranges tfdistill/compress/rebuild",
    "test_losses": (
        "tfdistill/losses/batch tfdistill/losses/reduction tfdistill/losses/attention "
        "tfdistill/losses/hidden tfdistill/losses/logits"
    ),
    "test_distillers": (
        "tfdistill/distillers/binding tfdistill/distillers/judging tfdistill/distillers/step "
        "tfdistill/distillers/teacher tfdistill/distillers/trainers tfdistill/losses/embedded "
        "tfdistill/losses/layered tfdistill/losses/methods tfdistill/distillers/method"
    ),
    "test_training/test_fit.py": "tfdistill/training/callbacks tfdistill/training/checkpoints",
    "test_training/test_teachers.py": "tfdistill/models/prediction tfdistill/training/evaluation",
    "test_training/test_pretrain.py": "tfdistill/training/pretrain_run",
    "test_pruning/test_shape.py": "tfdistill/config/short_forms",
    "test_pruning/test_pruning.py": (
        "tfdistill/pruning/refitting tfdistill/pruning/sample "
        "tfdistill/pruning/start tfdistill/pruning/weights"
    ),
    "test_run": (
        "tfdistill/run/corpora tfdistill/run/deliver tfdistill/run/lessons "
        "tfdistill/run/records tfdistill/run/task_models tfdistill/run/labelled "
        "tfdistill/run/prepare tfdistill/run/students tfdistill/data/task_data"
    ),
    "test_run/test_against.py": "tfdistill/run/against_app tfdistill/run/against_rounding",
    "test_run/test_indexing.py": "tfdistill/run/index_checks",
    "test_data/test_tables.py": "tfdistill/tasks/table_files",
    "test_data/test_parquet.py": "tfdistill/tasks/sheets tfdistill/tasks/table_limits",
    "test_cli/test_export_data.py": "tfdistill/commands/export_reuse",
    "test_cli": (
        "tfdistill/commands/benchmarks tfdistill/commands/data tfdistill/commands/export "
        "tfdistill/commands/export_job tfdistill/commands/index tfdistill/commands/models "
        "tfdistill/commands/runs tfdistill/commands/export_targets "
        "tfdistill/commands/measurement_options tfdistill/commands/plan "
        "tfdistill/commands/quickstart_budget tfdistill/commands/quickstart_plan "
        "tfdistill/commands/quickstart_verdict tfdistill/commands/quickstart_recipe"
    ),
    "test_export/test_planted_faults.py": (
        "export/checking/outputs export/checking/pairing export/checking/ranges "
        "export/checking/simulation export/checking/tracing"
    ),
    "test_export/test_sizing.py": "export/trials/size_steps",
    "test_export": (
        "export/checking/evidence export/checking/quantized export/checking/verify "
        "export/checking/weights export/conversion/lookup export/conversion/prepare "
        "export/conversion/recipe export/file/metadata_schema export/targets/text_graph "
        "export/targets/token_vectors export/trials/trial"
    ),
    "test_benchmark": (
        "tfdistill/benchmark/backend tfdistill/benchmark/host/backend "
        "tfdistill/benchmark/subjects tfdistill/benchmark/schema tfdistill/benchmark/settings "
        "tfdistill/benchmark/comparing/comparison_text tfdistill/benchmark/comparing/matching "
        "tfdistill/benchmark/statistics/summaries tfdistill/tflite/xnnpack "
        "tfdistill/tflite/serving"
    ),
    "test_report": (
        "tfdistill/report/answer_sides tfdistill/report/document tfdistill/report/model_groups "
        "tfdistill/report/sections/device tfdistill/report/sections/device_tables "
        "tfdistill/report/sections/limits tfdistill/report/sections/training "
        "tfdistill/results/templates tfdistill/report/run_analysis tfdistill/report/tradeoff "
        "tfdistill/report/plot/charts tfdistill/report/plot/scatter "
        "tfdistill/report/plot/timeline"
    ),
    "test_models": "tfdistill/models/attention",
    "test_tokenization": "tfdistill/tokenization/tokenizer",
}


def modules() -> set[str]:
    return {
        str(file.relative_to(ROOT).with_suffix(""))
        for package in ("tfdistill", "export")
        for file in (ROOT / package).rglob("*.py")
        if file.name != "__init__.py"
    }


def without_a_test(module_names: set[str]) -> set[str]:
    """Returns the modules that have no test file of their name in any folder."""
    tests = {file.stem.removeprefix("test_") for file in (ROOT / "tests").rglob("test_*.py")}
    return {module for module in module_names if module.rsplit("/", 1)[-1] not in tests}


def test_every_module_has_a_test_of_its_name_or_a_stated_one():
    listed = [module for names in COVERED_BY.values() for module in names.split()]
    without = without_a_test(modules())
    assert sorted(without - set(listed)) == []  # write a test of that name, or state another one
    assert sorted(set(listed) - without) == []  # gone, or tested under its own name: remove it
    assert len(set(listed)) == len(listed)
    tests = [ROOT / "tests" / name for name in COVERED_BY]
    assert [test for test in tests if not test.is_file() and not any(test.glob("test_*.py"))] == []
    names = {"tfdistill/tasks/tables", "tfdistill/data/new"}
    assert without_a_test(names) == {"tfdistill/data/new"}
