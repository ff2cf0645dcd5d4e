"""Every module has a test file of its name, or the table says which one covers it and why."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]

# (test file or folder, why it covers these modules, the modules without ".py").
COVERED_BY = (
    (
        "test_core/test_checksums.py",
        "a file that is read once is the one whose digest is taken",
        "tfdistill/io/contents",
    ),
    (
        "test_tflite/test_reader.py",
        "tables are compared with the generated reader's",
        "tfdistill/tflite/flatbuffer",
    ),
    (
        "test_manifest.py",
        "its parts are read and refused with it",
        "tfdistill/manifest/parts",
    ),
    (
        "test_analysis/test_promises.py",
        "probabilities are those that answers are judged by",
        "tfdistill/tasks/probabilities",
    ),
    (
        "test_architecture/test_seventh_kind.py",
        "a kind from outside is registered in every table",
        "tfdistill/tasks/registry",
    ),
    (
        "test_data/test_conll.py",
        "tags are read, encoded and scored together",
        "tfdistill/data/tagged_words",
    ),
    (
        "test_data/test_spans.py",
        "windows are made of questions, and answers read off them",
        "tfdistill/data/windows",
    ),
    (
        "test_core/test_files.py",
        "locks are those of files that are written",
        "tfdistill/io/locks",
    ),
    (
        "test_core/test_work_folder.py",
        "markers are those of the folders that tfdistill writes",
        "tfdistill/io/marker_file",
    ),
    (
        "test_weights/test_roberta.py",
        "the tokenizer of a checkpoint is compared with transformers beside its model",
        "tfdistill/tokenization/library",
    ),
    (
        "test_export/test_quantize_aware.py",
        "ranges are carried through a conversion of a quantization-aware model",
        "export/checking/carried",
    ),
    (
        "test_export/test_keras3.py",
        "faults are planted in the file that is checked",
        "export/targets/keras3_checks",
    ),
    (
        "test_export/test_android_bundle.py",
        "faults are planted in the bundle that is checked",
        "export/targets/android_bundle_checks",
    ),
    (
        "test_export/test_mediapipe.py",
        "faults are planted in the copy that is checked",
        "export/targets/mediapipe_checks export/targets/mediapipe_tokenizer",
    ),
    (
        "test_export/test_saved_model.py",
        "faults are planted in the folder that is checked",
        "export/targets/saved_model_checks",
    ),
    (
        "test_weights/test_folder_checks.py",
        "the program is run by the check of a folder",
        "tfdistill/weights/in_transformers",
    ),
    (
        "test_core",
        "recipes are read and merged through `config.load_recipe`",
        "tfdistill/config/recipe tfdistill/config/recipe_files "
        "tfdistill/config/schema tfdistill/config/sections "
        "tfdistill/config/stage_kinds "
        "tfdistill/config/training",
    ),
    (
        "test_architecture/test_packaging.py",
        "the installed package is run and asked for its version",
        "tfdistill/__main__ tfdistill/_version",
    ),
    (
        "test_data/test_tasks.py",
        "tasks are found by name and read through `load_examples`",
        "tfdistill/tasks/builtin tfdistill/tasks/kind tfdistill/tasks/spec",
    ),
    (
        "test_data/test_metrics.py",
        "kinds of tasks score the answers to them",
        "tfdistill/tasks/multi_label tfdistill/tasks/questions tfdistill/tasks/regression "
        "tfdistill/tasks/tags",
    ),
    (
        "test_data/test_label_cells.py",
        "kinds of labels are seen in what cells are recognised as",
        "tfdistill/tasks/label_kinds",
    ),
    (
        "test_data/test_batches.py",
        "examples as token ids and their streams are seen through the batches",
        "tfdistill/tasks/encoded tfdistill/data/streaming",
    ),
    (
        "test_tokenization/test_wordpiece.py",
        "words, classes of characters and positions are parts of the tokenizer",
        "tfdistill/tokenization/unicode_classes tfdistill/tokenization/edge_cases",
    ),
    (
        "test_data/test_shards.py",
        "shard files are written by the preparation and read by the batches",
        "tfdistill/data/shard_files",
    ),
    (
        "test_models/test_bert.py",
        "layers and their factory are parts of the encoder",
        "tfdistill/models/layer_factory tfdistill/models/layers",
    ),
    (
        "test_models/test_heads.py",
        "classifiers are built as heads of models",
        "tfdistill/models/classifiers",
    ),
    (
        "test_models/test_config.py",
        "counts and presets follow from configurations",
        "tfdistill/models/flops tfdistill/models/presets",
    ),
    (
        "test_weights/test_checkpoint.py",
        "folders are loaded and saved as a whole",
        "tfdistill/weights/filling tfdistill/weights/head_checks tfdistill/weights/hf_config "
        "tfdistill/weights/keys "
        "tfdistill/weights/load tfdistill/weights/save",
    ),
    (
        "test_weights/test_garden.py",
        "names of variables are parts of a Model Garden checkpoint",
        "tfdistill/weights/garden_keys",
    ),
    (
        "test_compress",
        "ranges and copies of models are seen through each compression",
        "tfdistill/compress/ranges tfdistill/compress/rebuild",
    ),
    (
        "test_losses",
        "every loss is reduced, reads batches and checks its options",
        "tfdistill/losses/batch tfdistill/losses/reduction",
    ),
    (
        "test_distillers",
        "parts that every distiller shares",
        "tfdistill/distillers/binding tfdistill/distillers/judging tfdistill/distillers/step "
        "tfdistill/distillers/teacher "
        "tfdistill/distillers/trainers "
        "tfdistill/losses/embedded tfdistill/losses/layered "
        "tfdistill/losses/methods",
    ),
    (
        "test_training/test_fit.py",
        "callbacks and checkpoints are parts of a fit",
        "tfdistill/training/callbacks tfdistill/training/checkpoints",
    ),
    (
        "test_training/test_teachers.py",
        "a teacher is evaluated, and its answers are cached",
        "tfdistill/models/prediction tfdistill/training/evaluation",
    ),
    (
        "test_training/test_pretrain.py",
        "held-out text and the folder are parts of a pre-training",
        "tfdistill/training/pretrain_run",
    ),
    (
        "test_pruning/test_shape.py",
        "the short form of a shape is read before it is compared with the teacher's",
        "tfdistill/config/short_forms",
    ),
    (
        "test_pruning/test_pruning.py",
        "layers, weights, refitting and the sample are parts of the cut",
        "tfdistill/pruning/layers tfdistill/pruning/refitting tfdistill/pruning/sample "
        "tfdistill/pruning/start tfdistill/pruning/weights",
    ),
    (
        "test_run",
        "a run prepares, trains, delivers and records as a whole",
        "tfdistill/run/corpora tfdistill/run/deliver tfdistill/run/lessons "
        "tfdistill/run/records tfdistill/run/task_models "
        "tfdistill/run/labelled tfdistill/run/prepare "
        "tfdistill/run/students tfdistill/data/task_data",
    ),
    (
        "test_run/test_folder.py",
        "runs are resumed with what they began with, and with something else",
        "tfdistill/io/resuming",
    ),
    (
        "test_run/test_against.py",
        "a comparison is made and shown as a whole",
        "tfdistill/run/against_app tfdistill/run/against_rounding",
    ),
    (
        "test_run/test_indexing.py",
        "an index is made, checked and searched as a whole",
        "tfdistill/run/index_checks",
    ),
    (
        "test_data/test_tables.py",
        "rows of files are read as tables",
        "tfdistill/tasks/table_files",
    ),
    (
        "test_data/test_parquet.py",
        "sheets and the limits of tables are those of packed files",
        "tfdistill/tasks/sheets tfdistill/tasks/table_limits",
    ),
    (
        "test_cli",
        "commands are run as a user runs them",
        "tfdistill/commands/benchmarks tfdistill/commands/data "
        "tfdistill/commands/export tfdistill/commands/export_job "
        "tfdistill/commands/index "
        "tfdistill/commands/models "
        "tfdistill/commands/runs "
        "tfdistill/commands/export_targets tfdistill/commands/measurement_options "
        "tfdistill/commands/plan "
        "tfdistill/commands/quickstart_plan "
        "tfdistill/commands/quickstart_verdict tfdistill/commands/quickstart_recipe",
    ),
    (
        "test_export/test_planted_faults.py",
        "planted faults are refused by the comparison with the float32 conversion",
        "export/checking/outputs export/checking/pairing "
        "export/checking/ranges "
        "export/checking/simulation export/checking/tracing",
    ),
    (
        "test_export/test_sizing.py",
        "steps are those that fit_size tries",
        "export/trials/size_steps",
    ),
    (
        "test_export",
        "a file is planned, converted and checked by one call of `to_tflite` or its siblings",
        "export/checking/golden_answers "
        "export/checking/evidence export/checking/quantized "
        "export/checking/verify export/checking/weights "
        "export/conversion/lookup export/conversion/prepare export/conversion/recipe "
        "export/file/metadata_schema "
        "export/targets/text_graph export/targets/token_vectors "
        "export/trials/trial",
    ),
    (
        "test_benchmark",
        "files are measured here as a whole, with devices and clocks that tests control",
        "tfdistill/benchmark/backend tfdistill/benchmark/host/backend "
        "tfdistill/benchmark/schema_environment tfdistill/benchmark/subjects "
        "tfdistill/benchmark/schema tfdistill/benchmark/settings "
        "tfdistill/benchmark/comparing/comparison_text tfdistill/benchmark/comparing/matching "
        "tfdistill/benchmark/statistics/bootstrap tfdistill/benchmark/statistics/remarks "
        "tfdistill/benchmark/statistics/summaries tfdistill/tflite/xnnpack "
        "tfdistill/tflite/serving",
    ),
    (
        "test_report",
        "sections are seen in the pages and tables of one report",
        "tfdistill/report/answer_sides tfdistill/report/document tfdistill/report/model_groups "
        "tfdistill/report/sections/class_answers "
        "tfdistill/report/sections/coverage "
        "tfdistill/report/sections/device tfdistill/report/sections/device_tables "
        "tfdistill/report/sections/limits "
        "tfdistill/report/sections/training tfdistill/results/templates "
        "tfdistill/report/plot/charts tfdistill/report/plot/scatter tfdistill/report/plot/timeline",
    ),
)


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
    listed = {module for _, _, text in COVERED_BY for module in text.split()}
    without = without_a_test(modules())
    assert sorted(without - listed) == []  # write a test of that name, or state another one
    assert sorted(listed - without) == []  # gone, or tested under its own name: remove the entry


@pytest.mark.parametrize(("test", "reason", "covered"), COVERED_BY)
def test_a_stated_test_exists_and_names_are_listed_once(test, reason, covered):
    path = ROOT / "tests" / test
    assert path.is_file() or any(path.glob("test_*.py"))
    assert len(reason.split()) > 3
    names = covered.split()
    others = [name for other, _, text in COVERED_BY if other != test for name in text.split()]
    assert len(set(names)) == len(names) and not set(names) & set(others)


def test_a_module_without_a_test_is_found():
    assert without_a_test({"tfdistill/tasks/tables", "tfdistill/data/new"}) == {
        "tfdistill/data/new"
    }
