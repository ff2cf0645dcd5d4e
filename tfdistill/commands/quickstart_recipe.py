"""The recipe of quickstart: how teacher, student and lengths follow from a model and its data."""

from __future__ import annotations

import argparse
import dataclasses
import math
import pathlib
from typing import TYPE_CHECKING, Any

import numpy as np

from tfdistill import analysis, config, models, tasks
from tfdistill.analysis import promises
from tfdistill.commands import vocabulary_options
from tfdistill.commands.quickstart_plan import CutVocabulary, QuickstartPlan
from tfdistill.tokenization.reading import read_tokenizer
from tfdistill.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from tfdistill.data.labelled_file import LabelledFile
    from tfdistill.weights import Checkpoint

_WIDTH = 384  # of the student's hidden states, at most
_LEAST_STEPS, _STEPS_A_CLASS = 400, 20  # of the teacher's fine-tuning
_STEPS_ON_PAIRS = 40  # of the same, of few rows
_SHORT_SET, _LONG_SET = 200, 60_000  # rows: smaller batches below, a single epoch above
_ROUNDED_TO = 16  # tokens
_HELD = 0.995  # share of the texts that are not cut
_READ = 100_000  # training texts whose tokens are counted
_LONGEST, _MOST_POSITIONS = 256, 512  # tokens that are chosen, and that can be asked for
_USUAL_PRESET = "tinybert_4l_312d"
_OF_TEXTS = ("data.vocab=", "data.prompt=")  # the changes that give texts other tokens
_FROZEN = "teacher.finetune.method=frozen"  # the change that leaves no steps to set
_PROMISE = (
    f"no promise: {promises.fewest_rows(0.05)} or more labelled texts that trained "
    "nothing show one of 5% (`tfdistill export RUN --promise-on FILE`)"
)
_ON_PAIRS = (
    "few rows: the encoder is fine-tuned on pairs of them, and a linear head is fitted over it; "
    "where cross-validation prefers the encoder as it is, that is kept"
)
_ON_ANSWERS = (
    "soft answers: the encoder is fine-tuned on the labels, on the probabilities and on these "
    "sharpened; the best on the development set is taken"
)
_CLOSEST = "weight_only_wi8_afp32"  # of the formats of a byte a weight


@dataclasses.dataclass(frozen=True)
class TextLengths:
    """The length that is proposed, a sentence about it, unknown words, and tokens by text, (n,)."""

    max_length: int
    note: str
    words: analysis.DataFindings
    tokens: np.ndarray


def make_plan(
    args: argparse.Namespace,
    name: str,
    checkpoint: Checkpoint,
    data: LabelledFile,
    folder: pathlib.Path,
) -> QuickstartPlan:
    """Plans a quickstart without budgets; `folder` is that of the data.

    `checkpoint` is that of the teacher, or of the student where answers take the teacher's place.
    """
    from tfdistill import weights
    from tfdistill.weights import hf_config

    teacher = config.model_folder(str(args.teacher or args.student))
    shape = hf_config.parse_config(checkpoint.raw_config)
    task, num_train = data.task, len(data.sets["train"])
    if args.answers:
        tuned, notes = False, [f"teacher: the answers in {', '.join(args.answers)}"]
        source: dict[str, Any] = {"answers": {"files": tuple(args.answers)}}
    else:
        tuned, why = answers_task(checkpoint, task)
        if args.finetune != "auto":
            tuned, why = args.finetune == "never", "as asked"
        notes = [f"teacher: {teacher}, {'used as it is' if tuned else 'fine-tuned first'}: {why}"]
        frozen = _FROZEN in args.set
        on_pairs = data.has_few and args.finetune == "auto" and not (args.class_weights or frozen)
        if frozen:
            training: dict[str, Any] = {"method": "frozen"}
        elif on_pairs:
            training = training_on_pairs(shape.hidden_size, task.num_labels)
        else:
            training = teacher_training(num_train, shape.hidden_size, task.num_labels)
        training |= {} if frozen else {"precision": args.precision}
        soft = data.answered is not None and data.answered.is_soft
        if soft and not (frozen or on_pairs or args.class_weights):
            training["targets"] = ("hard", "soft", "sharpened")
        source = {"source": teacher, "finetune": None if tuned else training}
        if on_pairs and not tuned:
            notes.append(_ON_PAIRS)
        elif "targets" in training and not tuned:
            notes.append(_ON_ANSWERS)
        if (answered := data.answered) is not None:
            judged = answered.num_judged(data.sets["train"].lines or ())
            most = int(analysis.SUSPICIOUS * judged)
            used = "train nothing" if answered.declared.drop_suspects else "are listed"
            notes.append(f"suspects: at most {most} of the training answers {used}")
    if tuned:
        notes.append(
            "If it was trained on rows of this file, its figures here are better than on new text."
        )
    is_chosen = args.student in (None, config.TEACHER)
    chosen = choose_student(shape) if is_chosen else args.student
    tokenizer = checkpoint.tokenizer
    named = [change.removeprefix("data.") for change in args.set if change.startswith(_OF_TEXTS)]
    section = data.section(folder)
    settings = config.parse_section(
        config.DataConfig, section, named, source="quickstart", place="data"
    )
    if pathlib.Path(settings.vocab).is_file():  # a missing one is a fault of the recipe
        case = None if tokenizer is None else tokenizer.lower_case
        tokenizer = read_tokenizer(settings.vocab, case)
    limit = checkpoint.max_length if tuned else None
    tokenizer = weights.existing_tokenizer(tokenizer, teacher).replace(prompt=settings.prompt)
    texts = choose_length(
        tokenizer,
        data,
        positions=min(shape.max_positions, limit or shape.max_positions),
    )
    notes.append(texts.note)
    cut = vocabulary_options.cut_of(
        args, None if args.answers or settings.vocab != "teacher" else teacher, fetch=True
    )
    epochs = 1 if num_train > _LONG_SET else 3
    stage = {"kind": "joint", "epochs": epochs, "precision": args.precision}
    values: dict[str, Any] = {
        "name": name,
        "data": {
            **section,
            **cut,
            "class_weights": args.class_weights,
            "min_recall": args.min_recall,
            "truncation": args.truncation,
            "max_length": texts.max_length,
            "doc_stride": texts.max_length // 2,
        },
        "teacher": source,
        "student": {"preset": chosen, "initialise": "auto"},
        "stages": {"joint": stage},
        "variants": {"student": {"stages": ["joint"]}},
        "seeds": [args.seed],
        # Twice as long moves a median by 1 to 3%; processes of one file differ by 20%.
        "benchmark": {"min_seconds": 0.5},
    }
    if data.cross_fitted:
        values |= {"student": {"preset": config.TEACHER}, "stages": {}, "variants": {}}
        notes += [f"the file holds the whole encoder of {teacher}", _PROMISE]
    recipe = config.parse_recipe(values, args.set, source="quickstart")
    if not recipe.teacher.allow_weak:
        texts.words.check()
    usual: dict[str, Any] = {
        # The teacher in the format of the student: like for like.
        "also_quantize": () if data.cross_fitted else (recipe.export.quantize,),
        "fallback": () if recipe.export.variants else (_CLOSEST,),
    }
    named_in_export = recipe.export.model_fields_set
    missing = {key: usual[key] for key in usual.keys() - named_in_export}
    recipe = recipe.model_copy(update={"export": recipe.export.model_copy(update=missing)})
    plain = recipe.model_dump(mode="json")
    training = {name: plain[name] for name in ("stages", "variants")}
    joint = recipe.stages.get("joint")
    is_open = (
        not (args.student or args.answers or args.latency_ms or data.cross_fitted)
        and not {"quantize", "variants"} & named_in_export
        and (joint is None or joint.compress is None)
        and chosen != _USUAL_PRESET
        and config.parse_pruned(chosen).width is None
        and not is_small(shape, recipe.data.max_length)
    )
    cut = None
    if recipe.data.cut is not None:
        from tfdistill.run import cutting

        of_train = cutting.texts_of(data.sets["train"])
        bounded = is_open or args.size_mb is not None
        cut = _cut(recipe.data.cut, tokenizer, of_train, checkpoint, bounded=bounded)
        shape = shape.replace(vocab_size=len(cut.choice.ids))
    teacher_shape = None if args.answers else shape
    why_so = tuple(notes), teacher_shape, texts.tokens, cut
    draft = QuickstartPlan(data, recipe, training, *why_so, is_open=is_open)
    if data.cross_fitted:
        return draft
    if args.student is not None:
        chosen = why = args.student
    elif is_small(shape, recipe.data.max_length):
        chosen = config.TEACHER
        why = "the teacher itself, which is as small already; --student names another"
    else:
        why = f"{chosen}, chosen by the shape of the teacher"
    return draft.with_student(chosen, f"student: {why}")


def _cut(
    section: config.CutConfig,
    tokenizer: Tokenizer,
    texts: list[str],
    checkpoint: Checkpoint,
    *,
    bounded: bool,
) -> CutVocabulary:
    """The pieces that are wanted; of a file that is `bounded` also their word table."""
    from tfdistill import weights
    from tfdistill.budget import word_tables
    from tfdistill.compress import languages
    from tfdistill.weights import factorised

    choice, table = languages.choose(tokenizer, texts, **section.model_dump()), None
    if bounded:
        rows = weights.open_checkpoint(checkpoint.folder).tensors[factorised.WORDS][choice.ranked]
        most = len(choice.ids)
        least = choice.num_needed if section.vocab_size is None else most
        table = word_tables.WordTable(rows, choice.shares, least=least, most=most)
    return CutVocabulary(tokenizer, choice, table)


def answers_task(checkpoint: Checkpoint, task: tasks.TaskSpec) -> tuple[bool, str]:
    """Decides by head and labels whether a model answers a task already."""
    from tfdistill.weights import head_checks

    raw, tensors = checkpoint.raw_config, checkpoint.tensors
    kernel = tensors.get("classifier.weight", tensors.get("classifier.out_proj.weight"))
    classes = [str(name) for name in raw.get("architectures") or ()]
    unit, head = "whole texts", "ForSequenceClassification"
    if task.traits.over_tokens:
        unit, head = "words", "ForTokenClassification"
    if kernel is None or not any(name.endswith(head) for name in classes):
        return False, f"it has no head for {unit}"
    count = len(kernel)
    if count != task.num_labels:
        return False, f"its head has {count} output(s), the task {task.num_labels}"
    if task.traits.one_number:
        return True, "its head answers with a number"
    named = head_checks.output_names(raw)
    names = [named.get(str(index), "no name") for index in range(count)]
    if not named or head_checks.are_unnamed(enumerate(names)):
        return (
            True,
            f"its head has {count} outputs without names, which its answers match to the labels",
        )
    if sorted(map(str.casefold, names)) == sorted(map(str.casefold, task.labels)):
        return True, "its labels are those of the data"
    return False, f"its labels are {', '.join(names[:4])}, not those of the data"


def teacher_training(num_train: int, width: int, num_labels: int) -> dict[str, Any]:
    """The fine-tuning of a teacher: 3 epochs, more of a small set, one of a large one.

    A head of many classes learns slowly: 48 of them had an accuracy of 0.78 after 416 steps and of
    0.85 after 1,014.
    """
    return {
        "epochs": 1 if num_train > _LONG_SET else 3,
        "min_steps": max(_LEAST_STEPS, _STEPS_A_CLASS * num_labels),
        "batch_size": 16 if num_train < _SHORT_SET else 32,
        "learning_rate": config.teacher_rate(width),
    }


def training_on_pairs(width: int, num_labels: int) -> dict[str, Any]:
    """The fine-tuning of a teacher on pairs of few rows: 40 steps.

    On 23 intents of 8 rows each 100 steps were no better. A batch has two rows of each label on
    average, up to 32 labels.
    """
    return {
        "method": "contrastive",
        "epochs": 1,
        "min_steps": _STEPS_ON_PAIRS,
        "batch_size": min(64, max(32, 2 * num_labels)),
        "learning_rate": config.teacher_rate(width),
    }


def choose_student(teacher: models.EncoderConfig) -> str:
    """A student about as fast as TinyBERT's with 4 layers, cut out of the teacher where it can be.

    A third of the layers (at least 3), hidden states of at most 384, feed-forward layers twice as
    wide. A teacher that cannot be cut gets that TinyBERT itself.
    """
    if type(teacher) is not models.EncoderConfig or teacher.family == "electra":
        return _USUAL_PRESET
    head = teacher.attention_width // teacher.num_heads
    width = min(teacher.hidden_size, max(head, _WIDTH // head * head))
    shape = config.PrunedShape(
        layers=max(min(teacher.num_layers, 3), teacher.num_layers // 3),
        ffn=min(teacher.intermediate_size, 2 * width),
        width=None if width == teacher.hidden_size else width,
    )
    return str(shape)


def is_small(teacher: models.EncoderConfig, length: int) -> bool:
    """Whether a teacher computes no more than a student would: TinyBERT with 4 layers."""
    usual = models.flops(models.preset(_USUAL_PRESET), length)
    return models.flops(teacher, length) <= usual


def choose_length(tokenizer: Tokenizer, data: LabelledFile, *, positions: int) -> TextLengths:
    """The length that fits the training texts; see `fit_length` and `analysis.check_words`.

    Of more than `_READ` texts so many are drawn: the share that is cut is then known to 0.05%.
    """
    train = data.sets["train"]
    if len(train) > _READ:
        train = train.select(np.sort(np.random.default_rng(0).permutation(len(train))[:_READ]))
    ids, counts = tokenizer.pieces([*train.texts, *(train.pairs or ())])
    tokens = tokenizer.whole_lengths(counts, train.pairs)
    if tokenizer.prompt:
        tokens = tokenizer.lengths(train.texts, train.pairs)
    length, note = fit_length(tokens, positions)
    if train is not data.sets["train"]:
        note += f"; {_READ:,} of the texts were counted"
    return TextLengths(length, note, analysis.check_words(ids, tokenizer), tokens)


def fit_length(lengths: np.ndarray, positions: int) -> tuple[int, str]:
    """The tokens that 99.5% of the training texts have at most, and no more than 256.

    Time grows with the tokens, in training and on the phone, so longer texts are cut unless the
    user asks for more.

    Shapes: `lengths` (examples,).
    """
    wanted = _ROUNDED_TO * math.ceil(np.quantile(lengths, _HELD) / _ROUNDED_TO)
    possible = int(min(wanted, positions, _MOST_POSITIONS))
    length = min(possible, _LONGEST)
    note = (
        f"max_length {length}: holds {np.mean(lengths <= length):.1%} of the training texts "
        f"(longest {lengths.max()} tokens)"
    )
    if possible > length:
        note += (
            f"; --set data.max_length={possible} holds {np.mean(lengths <= possible):.1%}, and "
            f"takes {possible / length:.1f} times as long or longer"
        )
    return length, note
