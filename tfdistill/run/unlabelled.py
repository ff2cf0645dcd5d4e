"""The texts without labels of a run."""

from __future__ import annotations

import logging
import pathlib

from tfdistill import config, errors, tasks
from tfdistill.data import unlabelled

_log = logging.getLogger(__name__)


def read_for_run(
    recipe: config.Recipe,
    task: tasks.TaskSpec,
    source: pathlib.Path,
    train: tasks.Examples,
) -> tasks.Examples | None:
    """Reads `data.unlabelled`, and says what it is used for.

    Args:
      recipe: The recipe.
      task: Its task.
      source: The task's files; no unlabelled text may be of the development or the test set.
      train: The labelled training set.

    Returns:
      New texts, or None where there are none.

    Raises:
      ConfigError: If the task is about words or spans.
      DataError: If a file is unusable, or has text of the development or test set.
    """
    if not recipe.data.unlabelled:
        return None
    held_out = {"development": tasks.load_examples(task, source, "dev", labelled=False)}
    if source.is_dir() and task.dev_split != "test" and _has_test_set(task, source):
        held_out["test"] = tasks.load_examples(task, source, "test", labelled=False)
    read = unlabelled.read_unlabelled(task, recipe.data.unlabelled)
    found = unlabelled.select_new(read, train, held_out)
    stages = {
        name: config.needs_labels(stage, regression=task.traits.one_number)
        for name, stage in recipe.used_stages.items()
        if isinstance(stage, config.TaskStage) and not stage.on_corpus
    }
    used = [name for name, needs in stages.items() if not needs]
    unused = [name for name, needs in stages.items() if needs]
    left_out = f", {found.dropped} empty or repeated ones left out" if found.dropped else ""
    lines = [f"data: {len(found.examples)} texts without labels{left_out}"]
    if used:
        lines.append(f"data: the teacher answers them in the stages {', '.join(used)}")
    if unused:
        lines.append(
            f"data: the stages {', '.join(unused)} need gold labels and learn from the "
            f"{len(train)} labelled texts alone"
        )
    _log.info("\n".join(lines))
    return found.examples if len(found.examples) else None


def _has_test_set(task: tasks.TaskSpec, source: pathlib.Path) -> bool:
    try:
        task.split_file(source, "test")
    except errors.DataError:
        return False
    return True
