"""Recipes that come with tfdistill are built and take a step in every stage, at toy size.

So are the rows of papers.md, a recipe with options each. One of each structure takes steps: the
others differ from it in numbers, names, presets and data alone.
"""

import dataclasses
import functools
import json
import pathlib

import numpy as np
import published_recipes
import pytest
import toy_recipes

from tfdistill import cli, config, models, training
from tfdistill.data import synthetic, task_data, vocab
from tfdistill.run import folder, prepare, students, task_models, teachers
from tfdistill.training import transfer

RECIPES = {name: config.load_recipe(name) for name in config.recipes()}
RECIPES |= {
    title: config.load_recipe(row.recipe, row.overrides)
    for title, row in zip(published_recipes.IDS, published_recipes.ROWS, strict=True)
    if row.overrides
}
# They have every kind of stage; the first recipe of every other structure, which combines these in
# other ways, is thorough.
USUAL = (
    "demo",
    "methods_sst2",
    "mobilebert_6l_128d_transfer",
    "tinybert_6l, STS-B",
)
NAMES = sorted(RECIPES)
_INCIDENTAL = {"name", "description", "preset", "source", "general", "seeds", "data", "export"}


def structure_of(name: str) -> str:
    """What decides which code a recipe runs: its options without numbers, names and data."""

    def stripped(value):
        if isinstance(value, dict):
            return {key: stripped(v) for key, v in value.items() if key not in _INCIDENTAL}
        if isinstance(value, list | tuple):
            return [stripped(item) for item in value]
        return value if value is None or isinstance(value, bool | str) else "a number"

    recipe = toy_recipes.scaled_down(RECIPES[name], pathlib.Path("data"))
    values = stripped(recipe.model_dump(mode="json"))
    values.pop("benchmark", None)
    values["variants"] = sorted(map(json.dumps, values["variants"].values()))
    values["task"] = recipe.data.task in ("stsb", None, "squad", "ner") and recipe.data.task
    values["augmented"] = recipe.data.augment is not None
    return json.dumps(values, sort_keys=True)


# The last of equal ones wins: the usual ones.
STRUCTURES = {structure_of(name): name for name in sorted(NAMES, key=lambda name: name in USUAL)}


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    vocab.write_vocab(vocab.train_vocab(synthetic.generate(400)[0], 400), path)
    return path


class ToyTeachers(teachers.TeacherModels):
    """Teachers that know nothing, of the shapes that the recipe names."""

    vocab_size = 0

    def _shape(self) -> models.EncoderConfig:
        settings = self._recipe.teacher
        preset = settings.source.removeprefix(task_models.PRESET)
        return task_models.shape_of(preset, settings, self.vocab_size)

    @functools.cached_property
    def task(self):
        return task_models.build_for_task(self._shape(), self._task)

    @functools.cached_property
    def general(self):
        return models.build_encoder(self._shape())

    @functools.cached_property
    def words(self):
        return models.build_masked_lm(self._shape(), next_sentence=True)


def one_step(distiller, train, **options):
    """Takes the place of `training.fit`: an optimizer step on the first batch that moves weights.

    The first step of a warm-up may be of rate 0, and several batches may be a step.
    """
    before = [variable.numpy() for variable in distiller.trainable_variables]
    batch = next(iter(train.dataset()))
    moved = False
    while not moved and int(distiller.optimizer.iterations) < 2:
        logs = distiller.train_step(batch)
        assert np.isfinite(float(logs["loss"])), options["description"]
        now = [variable.numpy() for variable in distiller.trainable_variables]
        moved = not all(map(np.array_equal, before, now))
    assert moved, options["description"]
    STEPPED.append(options["description"])
    return training.FitResult(steps=1, seconds=0.0)


STEPPED: list[str] = []


def small(recipe: config.Recipe, vocab_file: pathlib.Path, folder: pathlib.Path) -> config.Recipe:
    """Scaled down once more: few examples, which have every class, no vocabulary to train."""
    toy_recipes.write_data(recipe, folder)
    values = toy_recipes.scaled_down(recipe, folder).model_dump()
    values["data"] |= {"vocab": str(vocab_file), "train_limit": 64, "dev_limit": 8}
    return config.Recipe.model_validate(values)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in USUAL else pytest.mark.thorough)
        for name in STRUCTURES.values()
    ],
)
def test_every_stage_of_a_recipe_takes_a_step(name, vocab_file, tmp_path, monkeypatch):
    recipe = small(RECIPES[name], vocab_file, tmp_path / "files")
    assert config.missing_inputs(recipe) == []
    data, texts, _ = prepare.prepare(recipe, tmp_path)
    if isinstance(data, task_data.TaskData):
        data = dataclasses.replace(data, augmented=data.train.encoded)
    pool = ToyTeachers(recipe, data.task, tmp_path)
    pool.vocab_size = data.tokenizer.vocab_size
    run = folder.RunContext(recipe, folder.RunFolder(tmp_path), data, pool, texts)
    monkeypatch.setattr(training, "fit", one_step)
    monkeypatch.setattr(transfer, "fit", one_step)
    STEPPED.clear()
    for variant in recipe.variants.values():
        students.train_stages(run, variant.stages, 1)
    for variant in recipe.variants.values():
        assert any("+".join(variant.stages) in description for description in STEPPED)


def test_the_recipes_that_are_run_have_every_kind_of_stage():
    def kinds(names):
        return {stage.kind for name in names for stage in RECIPES[name].used_stages.values()}

    assert kinds(USUAL) == kinds(NAMES)


def test_no_recipe_is_missed():
    assert {*USUAL} < set(STRUCTURES.values())
    assert len(config.recipes()) == 15
    assert len(published_recipes.ROWS) == 50
    first = {row.recipe: row.overrides for row in reversed(published_recipes.ROWS)}
    assert set(first.values()) == {()}  # a recipe without options is a row of its own


@pytest.mark.parametrize("row", published_recipes.ROWS, ids=published_recipes.IDS)
def test_a_row_of_the_guide_fits_together(row, capsys):
    options = [word for assignment in row.overrides for word in ("--set", assignment)]
    assert cli.main(["recipes", "check", row.recipe, *options]) == 0
    assert capsys.readouterr().out.startswith(f"{row.recipe}: valid")
