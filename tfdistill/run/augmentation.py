"""The augmented training set of a run, made once."""

from __future__ import annotations

import dataclasses
import pathlib

from tfdistill import augmentation, config, tasks
from tfdistill.data import batches
from tfdistill.run import prepare, teachers


def augmented(
    recipe: config.Recipe, data: prepare.TaskData, root: pathlib.Path
) -> prepare.TaskData:
    """Adds the augmented training set, where a stage learns from it.

    The masked language model is `data.augment.masked_lm`, or the teacher before fine-tuning.

    Args:
      recipe: The recipe.
      data: Its data.
      root: The run folder; the set is written into ``data/augmented``.

    Returns:
      `data`, with `augmented`.

    Raises:
      WeightsError: If the masked language model cannot be read, or has no head for masked words.
      VocabularyError: If its vocabulary is not that of the data.
    """
    settings = recipe.data.augment
    stages = [s for s in recipe.used_stages.values() if isinstance(s, config.TaskStage)]
    if settings is None or not any(stage.augmented for stage in stages):
        return data
    folder = root / "data" / "augmented"
    if not (folder / "train.tsv").is_file():
        source = settings.masked_lm or teachers.general_source(recipe, root)
        finder = augmentation.load_finder(
            source,
            vectors_file=settings.vectors,
            tokenizer=data.tokenizer,
            max_length=recipe.data.max_length,
            num_candidates=settings.candidates,
            stop_words=augmentation.STOP_WORDS,
        )
        options = augmentation.AugmentOptions(
            copies=settings.copies,
            probability=settings.probability,
            num_candidates=settings.candidates,
            seed=settings.seed,
        )
        train = data.train_examples
        augmentation.augment_train(train, finder, options, folder, resume=folder.exists())
    task = dataclasses.replace(data.task, layout="table")
    examples = tasks.load_examples(task, folder, "train")
    encoded = batches.encode_examples(examples, data.tokenizer, recipe.data.max_length)
    return dataclasses.replace(data, augmented=encoded)
