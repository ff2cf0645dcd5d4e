"""Answers to forty made-up sentences, and a run whose models gave them."""

import numpy as np

from tfdistill import tasks
from tfdistill.data import answers
from tfdistill.manifest.confidence import Confidence
from tfdistill.tasks import spec

TASK = spec.TaskSpec("sst2", "sentence", "label", labels=("negative", "positive"))
GOLD = (np.arange(40) % 2).astype(np.int32)
TEXTS = [f"sentence <b>{i}</b>" for i in range(40)]


def logits_of(wrong, sure=3.0):
    """Right everywhere but at `wrong`."""
    logits = np.full((40, 2), -sure, np.float32)
    classes = GOLD.copy()
    classes[list(wrong)] = 1 - classes[list(wrong)]
    logits[np.arange(40), classes] = sure
    return logits


def answers_of(logits, task=TASK, labels=GOLD, **options):
    examples = tasks.Examples(task, TEXTS, None, labels)
    return answers.of_examples(examples, logits, **options)


def write_file(run_dir, model, file):
    """What the student and its file answered, next to the file."""
    both = answers_of({"model": logits_of(model), "file": logits_of(file)}, model_sha256="b" * 64)
    answers.write(both, run_dir / "export" / answers.FILE_NAME)


def add(run_dir):
    """A teacher that is wrong at 0, its student at 0, 1 and 2, the file at 3 too."""
    teacher, student = (answers_of({"model": logits_of(wrong)}) for wrong in ([0], [0, 1, 2]))
    answers.write(teacher, run_dir / "teacher" / answers.FILE_NAME)
    folder = run_dir / "students" / "full" / "seed-1"
    folder.mkdir(parents=True, exist_ok=True)
    answers.write(student, folder / answers.FILE_NAME)
    write_file(run_dir, [0, 1, 2], [0, 1, 2, 3])
    return run_dir


def promise(card, *promises, temperature=2.0, **more):
    """Writes promises into a manifest; by default one of 400 texts that is not held."""
    card["confidence"] = Confidence.of_file(
        card["model"]["sha256"],
        temperature=temperature,
        num_examples=300,
        promises=promises or ({"max_error": 0.1, "rows": 400, "rows_needed": 900},),
        **more,
    ).model_dump(mode="json")
