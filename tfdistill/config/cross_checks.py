"""What holds between the sections of a recipe."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from tfdistill import errors
from tfdistill.config.sections import DataConfig, StudentConfig, TeacherConfig, VariantConfig
from tfdistill.config.short_forms import is_static
from tfdistill.config.stages import STAGES, Stage
from tfdistill.config.training import METHODS
from tfdistill.io import safe_paths

EMBEDDING = "embedding"
_LONGEST_NAME = 200  # bytes of a folder's name, which file systems limit to 255
_LAST = (EMBEDDING, "combination")
_BEFORE = tuple(  # which compare layers and train no answers
    name for name, kind in STAGES.items() if not (kind.trains_classifier or kind.predicts_words)
)


class Sections(Protocol):
    """A recipe, or of an invalid one what is valid: None stands for the rest."""

    @property
    def data(self) -> DataConfig: ...  # noqa: D102
    @property
    def teacher(self) -> TeacherConfig: ...  # noqa: D102
    @property
    def student(self) -> StudentConfig: ...  # noqa: D102
    @property
    def baselines(self) -> str: ...  # noqa: D102
    @property
    def stages(self) -> Mapping[str, Stage | None]: ...  # noqa: D102
    @property
    def variants(self) -> Mapping[str, VariantConfig | None]: ...  # noqa: D102


def cross_faults(recipe: Sections) -> list[str]:
    """Returns a sentence for every fault between the sections."""
    return [
        fault
        for sections, check in CHECKS
        if all(getattr(recipe, name) is not None for name in sections)
        for fault in check(recipe)
    ]


def _trained_or_itself(recipe: Sections) -> Iterator[str]:
    """Something trains the student, unless that is the teacher itself, of a task with labels."""
    itself = recipe.student.is_teacher
    for name in ("stages", "variants"):
        count = len(getattr(recipe, name))
        if itself == bool(count):
            expected = "none, for student.preset is teacher" if itself else "at least 1 of them"
            yield errors.explain(name, expected, count or "none")
    if itself and (recipe.data.task is None or recipe.data.gives_vectors):
        yield errors.explain("student.preset teacher", "a task with labels", recipe.data.kind)
    if itself and recipe.teacher.answers is not None:
        yield errors.explain("student.preset teacher", "a model in teacher.source", "answers")
    usual = StudentConfig(preset=recipe.student.preset, allow_weak=recipe.student.allow_weak)
    for name, value in recipe.student if itself else ():
        if value != getattr(usual, name):
            expected = "none, for student.preset is teacher"
            yield errors.explain(f"student.{name}", expected, repr(value))


def _no_folders(section: str, recipe: Sections) -> Iterator[str]:
    """Names of stages and variants are names of folders, too."""
    for name in getattr(recipe, section):
        if not isinstance(name, str) or not safe_paths.is_plain_name(name):
            expected = "one of a folder: no / or \\, no dot at its start"
            yield errors.explain(f"{section}, a name", expected, repr(name))


def _joined_names(recipe: Sections) -> Iterator[str]:
    """The stages of a variant name a folder together: "a+b"."""
    for name in recipe.stages:
        if "+" in str(name):
            yield errors.explain("stages, a name", "one without +, which joins names", repr(name))
    for name, variant in _valid_variants(recipe):
        joined = "+".join(variant.stages)
        if len(joined.encode(errors="replace")) > _LONGEST_NAME:
            expected = f"names of at most {_LONGEST_NAME} bytes together"
            yield errors.explain(f"variants.{name}.stages", expected, len(joined))


def _lengths_of_stages(recipe: Sections) -> Iterator[str]:
    """What a stage reads has to fit into its batches."""
    for name, stage in _used_stages(recipe).items():
        longest = recipe.data.max_length
        if stage.on_corpus:
            longest = stage.max_length or longest
        else:
            yield from stage.length_faults(longest, f"stages.{name}.max_length")
        if stage.token_budget is not None and stage.token_budget < longest:
            expected = f"at least the longest text ({longest} tokens)"
            yield errors.explain(f"stages.{name}.token_budget", expected, stage.token_budget)
    finetune = None if recipe.teacher is None else recipe.teacher.finetune
    budget = None if finetune is None else finetune.token_budget
    if budget is not None and budget < recipe.data.max_length:
        expected = f"at least data.max_length ({recipe.data.max_length})"
        yield errors.explain("teacher.finetune.token_budget", expected, budget)


def _pruned_starts(recipe: Sections) -> Iterator[str]:
    """A student is cut out of the teacher of a task, for a stage that learns from that."""
    if recipe.student.start != "pruned":
        return
    for name, variant in _valid_variants(recipe):
        first = recipe.stages.get(variant.stages[0])
        fits = first is None or (first.traits.has_teacher and not first.traits.predicts_words)
        if not fits or recipe.data.task is None:
            kind = "none" if first is None else first.kind
            yield errors.explain(
                "student.initialise pruned",
                "a task, and a first stage that learns layers or answers from a teacher",
                f"task {recipe.data.task}, variants.{name} begins with {kind}",
            )


def _widths_of_vectors(recipe: Sections) -> Iterator[str]:
    width = recipe.student.vector_size
    for name, stage in _used_stages(recipe).items():
        if width is not None and max(stage.prefixes, default=0) > width:
            expected = f"at most student.vector_size ({width})"
            yield errors.explain(f"stages.{name}.prefixes", expected, list(stage.prefixes))


def _compressing_stages(recipe: Sections) -> Iterator[str]:
    for name, stage in recipe.stages.items():
        if stage is None or stage.compress is None:
            continue
        if stage.own_teacher and not stage.traits.has_teacher:
            yield (
                f"stages.{name}.compress.teacher: a stage of kind {stage.kind} has no teacher. "
                "Choose another kind, such as prediction"
            )
        if stage.on_corpus:
            yield (
                f"stages.{name}.compress: expected a stage on the task, received one that reads a "
                "corpus. Compress in a later stage"
            )
        for option in ("keep_best", "patience"):
            if stage.compress.method == "prune" and getattr(stage, option):
                yield (
                    f"stages.{name}.{option}: while zeros come, the best epoch is an early one "
                    "that has few. Leave it out"
                )


def _stages_of_variants(recipe: Sections) -> Iterator[str]:
    for name, variant in _valid_variants(recipe):
        for stage in variant.stages:
            if stage not in recipe.stages:
                hint = errors.nearest(stage, recipe.stages)
                yield f"variants.{name}.stages: no stage {stage!r}. {hint}"


def _compression_order(recipe: Sections) -> Iterator[str]:
    """Finds stages of a variant that would undo what one before them compressed."""
    order = list(METHODS)
    for variant_name, variant in _valid_variants(recipe):
        done: str | None = None
        for name in variant.stages:
            stage = recipe.stages.get(name)
            compress = None if stage is None else stage.compress
            method = None if compress is None else compress.method
            allowed = order if done is None else order[order.index(done) + 1 :]
            if done is not None and method not in allowed:
                methods = " or ".join(allowed)
                expected = f"compress.method {methods}" if allowed else "no further stage"
                yield (
                    f"variants.{variant_name}.stages: expected after a stage that does {done} "
                    f"{expected}, received {name} ({method or 'no compress'}), which would undo it"
                )
            if done == "prune" and compress is not None and compress.clusters < 3:
                expected = "at least 3 after prune, whose zeros are one of them"
                yield errors.explain(
                    f"stages.{name}.compress.clusters", expected, compress.clusters
                )
            done = method or done


def _task_of_variants(recipe: Sections) -> Iterator[str]:
    """Where there is a task, variants end in its classifier; otherwise none learns it."""
    for name, variant in _valid_variants(recipe):
        last = recipe.stages.get(variant.stages[-1])
        if recipe.data.task is not None:
            if last is not None and not last.trains_classifier:
                yield (
                    f"variants.{name}.stages: ends in a {last.kind} stage, which trains no "
                    "classifier. End with a prediction or a labels stage"
                )
            continue
        for stage_name in variant.stages:
            stage = recipe.stages.get(stage_name)
            if stage is not None and not stage.on_corpus:
                yield (
                    f"variants.{name}.stages: {stage_name} ({stage.kind}) learns a task, and "
                    "data.task is null"
                )


def _class_weights(recipe: Sections) -> Iterator[str]:
    if recipe.data.class_weights is None or recipe.teacher.finetune is not None:
        return
    used, invalid = _used_stages(recipe).values(), None in recipe.stages.values()
    if not (invalid or any(not stage.on_corpus and stage.needs_labels() for stage in used)):
        yield errors.explain(
            "data.class_weights",
            "a training on gold labels (teacher.finetune, a labels stage, or a stage with "
            "loss_weights.label)",
            "stages that learn the teacher's answers alone",
        )


def _only_embeddings(recipe: Sections) -> Iterator[str]:
    if recipe.data.gives_vectors:
        return
    options = [
        f"stages.{name}, kind {EMBEDDING}"
        for name, stage in sorted(_used_stages(recipe).items())
        if stage.traits.for_vectors
    ]
    if recipe.student is not None and recipe.student.vector_size is not None:
        options.append("student.vector_size")
    for option in options:
        yield errors.explain(option, f"data.kind {EMBEDDING}", recipe.data.kind)


def _stages_of_embeddings(recipe: Sections) -> Iterator[str]:
    if not recipe.data.gives_vectors:
        return
    used = sorted(_used_stages(recipe).items())
    for name, stage in used:
        if stage.kind not in (*_LAST, *_BEFORE):
            yield errors.explain(
                f"stages.{name}, kind, for an embedding",
                ", ".join((*_LAST, *_BEFORE)),
                stage.kind,
                "Vectors have no classes. On the command line: --stages embedding.",
            )
    for name, variant in _valid_variants(recipe):
        last = recipe.stages.get(variant.stages[-1])
        if last is not None and last.kind in _BEFORE:
            what = f"variants.{name}.stages, the last one"
            yield errors.explain(what, " or ".join(_LAST), last.kind)
    for name, stage in used:
        if stage.compress is not None:
            what = f"stages.{name}.compress, for an embedding"
            yield errors.explain(what, "none", "a compression")


def _teacher_of_embeddings(recipe: Sections) -> Iterator[str]:
    from_preset = recipe.teacher.source.startswith("preset:")
    training = [name for name in ("finetune", "pretrain") if getattr(recipe.teacher, name)]
    if recipe.data.gives_vectors and (from_preset or training):
        yield errors.explain(
            "teacher of an embedding",
            "a sentence encoder that is trained already, as source alone, or its vectors",
            "a preset" if from_preset else " and ".join(training),
            "Name a sentence-transformers folder, or a file in answers.",
        )


def _student_of_embeddings(recipe: Sections) -> Iterator[str]:
    if not recipe.data.gives_vectors:
        return
    preset = recipe.student.preset
    if preset == "static" or is_static(preset) or preset.startswith("bilstm"):
        expected = "an encoder of the BERT family"
        yield errors.explain("student.preset of an embedding", expected, preset)
    for name, differs in (
        ("baselines", recipe.baselines == "all"),
        ("data.augment", recipe.data.augment is not None),
        ("student.keep_head", recipe.student.keep_head),
    ):
        if differs:
            yield errors.explain(f"{name} of an embedding", "the default", "another value")


def _pooled_teacher(recipe: Sections) -> Iterator[str]:
    """A linear head over pooled states has a trained encoder; only it is fitted by folds."""
    finetune = recipe.teacher.finetune
    pooled = finetune is not None and finetune.pooled
    if finetune is not None and pooled:
        if recipe.teacher.source.startswith("preset:"):
            expected = f"an encoder that is trained already with method {finetune.method}"
            yield errors.explain("teacher.source", expected, recipe.teacher.source)
        if recipe.data.class_weights is not None:
            expected = f"none with teacher.finetune.method {finetune.method}"
            yield errors.explain("data.class_weights", expected, recipe.data.class_weights)
        usual = type(finetune)()
        for name in finetune.unread:
            value = getattr(finetune, name)
            if value != getattr(usual, name):
                expected = f"the default, which method {finetune.method} does not read"
                yield errors.explain(f"teacher.finetune.{name}", expected, value)
    if recipe.data.cross_fitted and recipe.data.dev_split != "train":
        yield errors.explain("data.dev_split", "train with cross_fitted", recipe.data.dev_split)
    if recipe.data.cross_fitted and recipe.baselines == "all":
        expected = "none or cheap with data.cross_fitted"
        yield errors.explain("baselines", expected, recipe.baselines)
    if recipe.data.cross_fitted and not (pooled and recipe.student.is_teacher):
        yield errors.explain(
            "data.cross_fitted",
            "teacher.finetune.method contrastive or frozen, and student.preset teacher",
            "a model that is trained",
            "Its rows have no development set: name a labelled file, or a task with one.",
        )


def _cut_vocabulary(recipe: Sections) -> Iterator[str]:
    """What is cut is the vocabulary of a teacher's folder, to the texts of a task."""
    if recipe.data.cut is None:
        return
    teacher, expected = recipe.teacher, "a task, and a teacher with a vocabulary of its own"
    for received, differs in (
        ("no task", recipe.data.task is None),
        ("answers", teacher.answers is not None),
        (teacher.source, teacher.source.startswith("preset:")),
        ("teacher.pretrain", teacher.pretrain is not None),
        (f"data.vocab {recipe.data.vocab}", recipe.data.vocab != "teacher"),
    ):
        if differs:
            yield errors.explain("data.cut", expected, received)


def _valid_variants(recipe: Sections) -> list[tuple[str, VariantConfig]]:
    return [(name, variant) for name, variant in recipe.variants.items() if variant is not None]


def _used_stages(recipe: Sections) -> dict[str, Stage]:
    used = {stage for _, variant in _valid_variants(recipe) for stage in variant.stages}
    return {name: stage for name, stage in recipe.stages.items() if stage and name in used}


CHECKS: tuple[tuple[tuple[str, ...], Callable[[Sections], Iterator[str]]], ...] = (
    (("data", "teacher", "student", "stages", "variants"), _trained_or_itself),
    (("stages",), functools.partial(_no_folders, "stages")),
    (("variants",), functools.partial(_no_folders, "variants")),
    (("stages", "variants"), _joined_names),
    (("data", "stages", "variants"), _lengths_of_stages),
    (("data", "student", "stages", "variants"), _pruned_starts),
    (("student", "stages", "variants"), _widths_of_vectors),
    (("stages",), _compressing_stages),
    (("stages", "variants"), _stages_of_variants),
    (("stages", "variants"), _compression_order),
    (("data", "stages", "variants"), _task_of_variants),
    (("data", "stages", "variants"), _only_embeddings),
    (("data", "stages", "variants"), _stages_of_embeddings),
    (("data", "teacher"), _teacher_of_embeddings),
    (("data", "teacher"), _cut_vocabulary),
    (("data", "teacher", "student", "baselines"), _pooled_teacher),
    (("data", "student"), _student_of_embeddings),
    (("data", "teacher", "stages", "variants"), _class_weights),
)
"""The checks, each with the sections that it reads."""
