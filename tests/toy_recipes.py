"""Toy recipes: any recipe scaled down until it runs in minutes, on generated data."""

from __future__ import annotations

import json
import pathlib
from typing import Any

from tfdistill.config.recipe import Recipe
from tfdistill.config.sections import BUILT_IN_DATA, STARTS, ShapeConfig
from tfdistill.config.short_forms import (
    PrunedShape,
    is_checkpoint,
    is_pruned,
    is_static,
    parse_pruned,
)
from tfdistill.config.stages import Stage
from tfdistill.data import from_config, synthetic
from tfdistill.io import files
from tfdistill.tasks import TaskSpec

_MAX_LENGTH, _BATCH_SIZE, _STEPS, _EXAMPLES, _TOKENS = 32, 16, 24, 256, 4000
_NO_SIZES = {name: None for name in ShapeConfig.model_fields if name != "hidden_act"}
_BERT = {"num_layers": 4, "hidden_size": 32, "num_heads": 4, "intermediate_size": 64}
_MOBILEBERT = {
    "num_layers": 3,
    "hidden_size": 32,
    "embedding_size": 16,
    "bottleneck_size": 16,
    "num_heads": 2,
    "intermediate_size": 32,
}
_PRETRAIN = {"learning_rate": 1e-4, "warmup": 0.1, "corpus": ()}
_IB_BERT = {**_MOBILEBERT, "bottleneck_size": 48, "intermediate_size": 64}


def write_data(recipe: Recipe, folder: pathlib.Path) -> None:
    """Writes what a scaled down recipe reads: its task's files in their own form, plain text.

    Their texts are the commands of `data.synthetic`, and their labels take turns.
    """
    files.atomic_write_text(folder / synthetic.CORPUS_NAME, synthetic.generate_corpus(150))
    if recipe.data.task in (None, BUILT_IN_DATA):
        return
    spec = from_config.declared_task(recipe.data)
    write = _write_questions if spec.kind == "span" else _write_table
    texts = synthetic.generate(1440)[0]
    write(spec, folder / "train", list(zip(texts[0:1200:2], texts[1:1200:2], strict=True)))
    write(spec, folder / spec.dev_split, list(zip(texts[1200::2], texts[1201::2], strict=True)))


def _write_table(spec: TaskSpec, path: pathlib.Path, texts: list[tuple[str, str]]) -> None:
    named = (spec.text_column, spec.pair_column, spec.label_column)
    columns = list(spec.header) or [column for column in named if column is not None]
    labels = spec.label_values or spec.labels or [f"{score}.0" for score in range(6)]
    lines = [] if spec.header else ["\t".join(columns)]
    for index, cells in enumerate(texts):
        row = dict(zip(named, (*cells, labels[index % len(labels)]), strict=True))
        lines.append("\t".join(row.get(column, "-") for column in columns))
    files.atomic_write_text(path.with_name(f"{path.name}.tsv"), "\n".join(lines) + "\n")


def _write_questions(spec: TaskSpec, path: pathlib.Path, texts: list[tuple[str, str]]) -> None:
    paragraphs = []
    for index, (first, second) in enumerate(texts):
        answer = {"text": second, "answer_start": len(first) + 3}
        entry = {"id": f"{path.name}-{index}", "question": "what is last ?", "answers": [answer]}
        paragraphs.append({"context": f"{first} . {second}", "qas": [entry]})
    document = json.dumps({"data": [{"title": "commands", "paragraphs": paragraphs}]})
    files.atomic_write_text(path.with_name(f"{path.name}.json"), document)


def scaled_down(recipe: Recipe, folder: pathlib.Path) -> Recipe:
    """Shrinks a recipe until it runs in minutes on two cores, on the files of `write_data`.

    Stages, methods, losses, schedules and their order stay. The vocabulary is trained on the files,
    the teacher is a toy of the same kind (pre-trained on the text where the stages need a masked
    language model), models become shallow and narrow, batches and epochs few.
    """
    corpus = folder / synthetic.CORPUS_NAME
    kinds = [stage.traits for stage in recipe.stages.values()]
    mobile = any(kind.in_parts for kind in kinds)
    masked = any(kind.predicts_words and kind.has_teacher for kind in kinds)
    masked |= recipe.teacher.pretrain is not None or recipe.data.augment is not None
    values = recipe.model_dump()
    values["name"] = f"{recipe.name}-scaled-down"
    values["data"] |= {
        "dir": None if recipe.data.task in (None, BUILT_IN_DATA) else str(folder),
        "vocab": "train:400",
        "lower_case": True,
        "max_length": min(recipe.data.max_length, _MAX_LENGTH),
        "doc_stride": min(recipe.data.doc_stride, _MAX_LENGTH // 4),
        "max_question_length": min(recipe.data.max_question_length, _MAX_LENGTH // 4),
        "train_limit": _EXAMPLES,
        "dev_limit": _EXAMPLES // 4,
        "unlabelled": (),
    }
    if recipe.data.augment is not None:
        values["data"]["augment"] |= {"masked_lm": None, "vectors": None, "copies": 2}
    finetune, pretrain = values["teacher"]["finetune"], values["teacher"]["pretrain"]
    values["teacher"] |= {
        **_NO_SIZES,
        **(_IB_BERT if mobile else _BERT),
        "source": "preset:ib_bert_large" if mobile else "preset:bert_base",
        "answers": None,
        "general": None,
        "dtype": "float32",
        "allow_weak": True,
        "finetune": finetune and _short(finetune, corpus),
        "pretrain": _short(pretrain or {**_PRETRAIN, "next_sentence": mobile}, corpus)
        if masked or recipe.data.task is None
        else None,
    }
    values["student"] |= {**_NO_SIZES, **_student(recipe, mobile=mobile)}
    values["stages"] = {name: _stage(stage, corpus) for name, stage in recipe.stages.items()}
    values["seeds"] = recipe.seeds[:1]
    values["export"]["lengths"] = (_MAX_LENGTH,)
    values["benchmark"] |= {"threads": (1,), "runs": 10, "min_seconds": 0.0, "repetitions": 1}
    return Recipe.model_validate(values)


def _student(recipe: Recipe, *, mobile: bool) -> dict[str, Any]:
    """Half the teacher's layers, and its width where the recipe's student has it."""
    start = recipe.student.initialise
    chosen: dict[str, Any] = {
        "initialise": start if start in STARTS else "teacher",
        "keep_head": False,
        "allow_weak": True,
    }
    if mobile:
        return {**chosen, **_MOBILEBERT}
    if is_pruned(recipe.student.preset):
        choose = parse_pruned(recipe.student.preset).choose
        return {**chosen, "preset": str(PrunedShape(layers=2, ffn=32, heads=2, choose=choose))}
    if recipe.student.preset == "static" or is_static(recipe.student.preset):
        return {**chosen, "preset": "static", "embedding_size": 16}
    if is_checkpoint(recipe.student.preset):
        chosen["preset"] = "bert_tiny"
    if recipe.student.preset.startswith("bilstm"):
        return {**chosen, "embedding_size": 16, "hidden_size": 8, "dense_size": 16}
    wide = recipe.student.preset.endswith(("_base", "_768d"))
    width = _BERT["hidden_size"] if wide else _BERT["hidden_size"] // 2
    if isinstance(recipe.student.teacher_layers, tuple):
        chosen["teacher_layers"] = (0, 2)
    return {
        **chosen,
        "num_layers": _BERT["num_layers"] // 2,
        "hidden_size": width,
        "num_heads": _BERT["num_heads"],
        "intermediate_size": 2 * width,
    }


def _stage(stage: Stage, corpus: pathlib.Path) -> dict[str, Any]:
    """A stage cut short; layers and heads that are named by number are those of the toy."""
    values = stage.model_dump()
    toy: dict[str, Any] = {
        "relation_heads": 2 * _BERT["num_heads"],
        "transfer_steps": _STEPS // 4,
        "teacher_layer": _BERT["num_layers"] - 2,
        "gradient_accumulation": min(values["gradient_accumulation"], 2),
    }
    shorter = {**values, **{key: toy[key] for key in toy if values.get(key) not in (None, -1)}}
    if "max_tokens" in values:
        shorter["max_tokens"] = _TOKENS
    if not isinstance(values.get("layer_map", ""), str):
        shorter["layer_map"] = "uniform"
    return _short(shorter, corpus if stage.on_corpus else None)


def _short(values: dict[str, Any], corpus: pathlib.Path | None) -> dict[str, Any]:
    """One epoch of small batches, or a few steps; the text is the generated one."""
    shorter = {**values, "epochs": 1, "batch_size": _BATCH_SIZE}
    if values.get("steps") is not None:
        shorter["steps"] = _STEPS
    if values.get("min_steps") is not None:
        shorter["min_steps"] = _STEPS
    if "corpus" in values:
        shorter["corpus"] = () if corpus is None else (str(corpus),)
    if values.get("max_length") is not None:
        shorter["max_length"] = _MAX_LENGTH
    return shorter
