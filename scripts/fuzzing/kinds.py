"""The kinds of files and the commands that read them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import undamaged


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
      name: Its name.
      files: Patterns of the files, below the working folder.
      commands: Command lines that read them; one is drawn.
      without: Patterns of what is removed first, so that a resumed command reads the file.
      needs_training: Whether the undamaged files are a run's.
      weight: How often it is drawn.
      light: Whether no command imports TensorFlow.
      inputs: Whether users write the files: other content is then another input, not a damage.
      full_disk: Whether nothing is damaged, and the disk of the folder ``disk`` is full instead.
    """

    name: str
    files: Sequence[str]
    commands: Sequence[Sequence[str]]
    without: Sequence[str] = ()
    needs_training: bool = True
    weight: int = 2
    full_disk: bool = False
    light: bool = False
    inputs: bool = False


_RESUME = ("run", "text/toy.yaml", "--out", "run", "--resume")
_EVALUATE = ("evaluate", "run/teacher/model/hf", "--limit", "4")
_TRAIN = (
    *("--epochs", "1", "--min-steps", "1", "--batch-size", "4"),
    *("--set", "data.train_limit=4"),
    *("--vocab", "text/vocab.txt"),
)
_TINY = (
    *("preset:bert_tiny", "--set", "teacher.num_layers=1", "--set", "teacher.allow_weak=true"),
    *(*_TRAIN, "--max-length", "24"),
)
_TAUGHT = (
    *("--student", "bert_tiny", "--set", "student.num_layers=1", "--allow-weak"),
    *(*_TRAIN, "--max-length", "24", *undamaged.OWN, "--baselines", "none"),
)
_BENCHMARK = ("benchmark", "exported", *undamaged.MEASURE)
_EXPORT_RUN = ("export", "run", "--lengths", "16", "--out")
_AFTER_STAGES = (  # what a run makes after its stages
    *("run/results", "run/students", "run/student", "run/export"),
    *("run/metrics.json", "run/benchmark.json"),
)

KINDS = (
    Kind(
        "recipe",
        ("text/toy.yaml",),
        (
            ("recipes", "check", "text/toy.yaml"),
            ("recipes", "show", "text/toy.yaml"),
            ("run", "text/toy.yaml", "--out", "new", "--dry-run"),
        ),
        needs_training=False,
        weight=6,
        light=True,
        inputs=True,
    ),
    Kind(
        "table",
        ("text/train.csv", "text/dev.csv", "lines/*.jsonl", "questions/*.json", "tags/*.txt"),
        (
            ("run", "text/toy.yaml", "--out", "new", "--dry-run"),
            ("run", "text/toy.yaml", "--out", "new", "--dry-run", "--set", "data.dir=lines"),
            ("finetune", *_TINY, *undamaged.OWN, "--out", "new", "--dry-run"),
        ),
        needs_training=False,
        inputs=True,
    ),
    Kind(
        "sweep",
        ("text/sweep.json",),
        (("report", "text", "--out", "page"),),
        light=True,
        needs_training=False,
    ),
    Kind(
        "corpus",
        ("text/corpus.txt", "text/vocab.txt"),
        (
            ("data", "prepare", "text/corpus.txt", "--vocab", "text/vocab.txt", "--out", "new"),
            ("data", "vocab", "text/corpus.txt", "--size", "90", "--out", "new.txt"),
        ),
        needs_training=False,
        inputs=True,
    ),
    Kind(
        "training data",
        ("text/*.csv", "text/vocab.txt"),
        (("finetune", *_TINY, *undamaged.OWN, "--out", "new"),),
        needs_training=False,
        weight=1,
        inputs=True,
    ),
    Kind(
        "questions",
        ("questions/*.json",),
        (("finetune", *_TINY, "--task", "squad", "--data-dir", "questions", "--out", "new"),),
        needs_training=False,
        weight=1,
        inputs=True,
    ),
    Kind(
        "tags",
        ("tags/*.txt",),
        (("finetune", *_TINY, "--task", "ner", "--data-dir", "tags", "--out", "new"),),
        needs_training=False,
        weight=1,
        inputs=True,
    ),
    *(
        Kind(
            f"answers as {form}",
            (f"given/answers.{form}",),
            (("distill", "--answers", f"given/answers.{form}", *_TAUGHT, "--out", "new"),),
            needs_training=False,
            weight=1,
            inputs=True,
        )
        for form in ("jsonl", "csv", "parquet")
    ),
    Kind(
        "sentence encoder",
        ("sentences/*", "sentences/*/*"),
        (
            ("evaluate", "sentences", *undamaged.PAIRS, "--limit", "4"),
            ("export", "sentences", "--out", "new", "--lengths", "16", "--quantize", "float32"),
            ("read", "sentences"),
        ),
        needs_training=False,
        inputs=True,
    ),
    Kind(
        "pairs",
        ("pairs/*.csv",),
        (
            ("evaluate", "sentences", *undamaged.PAIRS, "--limit", "4"),
            (
                *("distill", "--teacher", "sentences", "--student", "pruned:ffn=8"),
                *(*undamaged.PAIRS, "--out", "new", "--dry-run"),
            ),
        ),
        needs_training=False,
        weight=1,
        inputs=True,
    ),
    Kind(
        "index",
        ("near/search/*",),
        (
            ("index", "near/search", "--query", "a good film"),
            ("index", "near/search", "--query", "dull", "--model", "near", "--json"),
            (*undamaged.INDEX, "--model", "near", "--overwrite"),
        ),
        needs_training=False,
        weight=3,
    ),
    Kind(
        "model of an index",
        ("near/*",),
        (
            (*undamaged.INDEX, "--model", "near", "--out", "new"),
            ("index", "near/search", "--query", "a good film"),
        ),
        needs_training=False,
    ),
    Kind(
        "answers of an export",
        ("exported/answers.safetensors", "run/export/answers.safetensors"),
        (("report", "exported", "--out", "page"), ("report", "run", "--out", "page")),
        weight=1,
    ),
    Kind(
        "result",
        ("run/*.json", "run/recipe.yaml", "run/export/model.json", "run/**/history.csv"),
        (
            ("report", "run"),
            ("report", "run", "both.json", "--out", "page"),
            ("report", "run", "text", "--out", "page"),
        ),
        weight=6,
        light=True,
    ),
    *(
        Kind(
            "measurement",
            (file,),
            (
                ("compare", "both.json"),
                ("compare", "run/benchmark.json", "run/benchmark.json"),
                ("report", "both.json", "run/benchmark.json", "--out", "page"),
            ),
            weight=3,
            light=True,
        )
        for file in ("both.json", "run/benchmark.json")
    ),
    Kind(
        "manifest",
        ("exported/*.json", "exported/*.txt"),
        (
            ("inspect", "exported", "--static"),
            ("inspect", "exported"),
            _BENCHMARK,
            ("evaluate", "exported", *undamaged.OWN, "--limit", "4"),
        ),
    ),
    Kind(
        "tflite",
        ("exported/model.tflite",),
        (
            ("inspect", "exported/model.tflite"),
            ("inspect", "exported/model.tflite", "--static"),
            ("benchmark", "exported/model.tflite", *undamaged.MEASURE),
        ),
        without=("exported/model.json",),
        inputs=True,
    ),
    Kind(
        "tflite with its manifest",
        ("exported/model.tflite",),
        (("evaluate", "exported", *undamaged.OWN, "--limit", "4"), _BENCHMARK),
        weight=1,
    ),
    Kind(
        "bundle",
        ("assets/bundles/*.json", "assets/bundles/*/*"),
        ((*_EXPORT_RUN, "new", "--name", "b", "--android", "assets"),),
        weight=1,
    ),
    Kind(
        "Hugging Face folder",
        ("run/teacher/model/hf/*",),
        (
            (*_EVALUATE, *undamaged.OWN),
            (
                *("run", "text/toy.yaml", "--out", "new", "--dry-run"),
                *("--set", "teacher.source=run/teacher/model/hf"),
            ),
            ("export", "run/teacher/model/hf", "--out", "new", "--lengths", "16"),
        ),
        weight=3,
    ),
    Kind("shards", ("shards/*",), ((*undamaged.PRETRAIN, "--out", "new"),), weight=3),
    Kind(
        "step records",
        (
            *("run/data/*.json", "run/results/*.json", "run/teacher/result.json"),
            *("run/stages/**/result.json", "run/recipe.yaml", "run/environment.json"),
            *("run/metrics.json", "run/export/model.json", "run/benchmark.json"),
        ),
        (_RESUME,),
        weight=3,
    ),
    Kind(
        "stages",
        (
            *("run/stages/**/*.safetensors", "run/stages/**/result.json"),
            *("run/**/history.csv", "run/teacher/model/**/*"),
        ),
        (_RESUME,),
        without=_AFTER_STAGES,
        weight=2,
    ),
    Kind(
        "checkpoints and caches",
        (
            *("run/stages/**/checkpoints/**/*", "run/teacher/cache/*"),
            *("run/stages/**/history.csv", "run/teacher/finetune/checkpoints/**/*"),
        ),
        (_RESUME,),
        without=(*_AFTER_STAGES, "run/stages/**/result.json", "run/teacher/result.json"),
        weight=2,
    ),
    Kind(
        "pre-training",
        ("pretrained/*.json", "pretrained/checkpoints/**/*", "pretrained/history.csv"),
        ((*undamaged.PRETRAIN, "--out", "pretrained", "--resume"),),
        without=("pretrained/model",),
        weight=1,
    ),
    Kind(
        "augmentation",
        ("augmented/*",),
        ((*undamaged.AUGMENT, "--out", "augmented", "--resume"),),
        weight=1,
    ),
    *(
        Kind(f"{name} as read", files, (("read", name),), weight=weight, light=bool(light))
        for name, files, weight, light in (
            ("run", ("run/*", "run/**/history.csv", "run/**/*.json", "run/**/*.yaml"), 4, 1),
            ("run", ("run/**/answers.safetensors", "run/**/hf/*"), 3, 1),
            ("records", ("run/**/result.json", "run/results/*.json"), 2, 1),
            ("weights", ("run/stages/**/*.safetensors", "run/teacher/cache/*"), 2, 1),
            ("export", ("exported/*",), 4, 1),
            ("measured", ("both.json",), 2, 1),  # apart: one in the place of the other is whole
            ("measured", ("run/benchmark.json",), 2, 1),
            ("index", ("near/search/*",), 2, 1),
            ("checkpoint", ("run/teacher/model/hf/*", "run/teacher/model/*.json"), 3, 0),
            ("shards", ("shards/*",), 2, 1),
            ("bundles", ("assets/bundles/*.json", "assets/bundles/*/*"), 2, 0),
            ("augmented", ("augmented/augmentation.json",), 1, 1),
            ("pretrained", ("pretrained/*.json", "pretrained/model/hf/*"), 2, 0),
        )
    ),
    Kind(
        "full disk",
        (),
        (
            ("data", "prepare", "text/corpus.txt", "--vocab", "text/vocab.txt", "--out", "disk/a"),
            ("data", "vocab", "text/corpus.txt", "--size", "90", "--out", "disk/vocab.txt"),
            ("finetune", *_TINY, *undamaged.OWN, "--out", "disk/a"),
            ("recipes", "cp", "demo", "disk/demo.yaml"),
            (*undamaged.INDEX, "--model", "near", "--out", "disk/a"),
        ),
        needs_training=False,
        weight=1,
        full_disk=True,
    ),
    Kind(
        "full disk of a run",
        (),
        (
            ("run", "text/toy.yaml", "--out", "disk/a"),
            (*_EXPORT_RUN, "disk/a", "--hf", "disk/hf"),
            (*_EXPORT_RUN, "new", "--hf", "disk/hf", "--android", "disk/assets"),
            (*_BENCHMARK, "--out", "disk/a.json"),
            ("report", "run", "--out", "disk/page"),
            (*undamaged.PRETRAIN, "--out", "disk/a"),
            (*undamaged.AUGMENT, "--out", "disk/a"),
        ),
        weight=2,
        full_disk=True,
    ),
)
