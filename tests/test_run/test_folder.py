"""A run folder belongs to one process at a time, and holds nothing but a run."""

import hashlib
import json

import pytest
import yaml

from tfdistill import config, errors, results
from tfdistill.run import folder

RECIPE = config.load_recipe("demo")


@pytest.fixture
def place(tmp_path):
    return folder.RunFolder(tmp_path / "out")


@pytest.mark.parametrize("option", ["overwrite", "resume"])
def test_a_folder_that_another_run_works_in_is_left_alone(place, option):
    with place.open(RECIPE):
        (place.path / "teacher").mkdir()
        with (
            pytest.raises(errors.OutputExistsError),
            folder.RunFolder(place.path).open(RECIPE, **{option: True}),
        ):
            pass
        assert (place.path / "teacher").is_dir()


def test_a_file_in_the_place_of_the_folder_is_refused(place):
    place.path.write_text("years of work")
    with (
        pytest.raises(errors.OutputExistsError, match="received a file"),
        place.open(RECIPE, overwrite=True),
    ):
        pass
    assert place.path.read_text() == "years of work"


@pytest.mark.parametrize("damage", ["", "{", '{"steps": "many"}', "[]", "[" * 50_000, "\0"])
def test_a_step_whose_record_is_damaged_is_run_again_and_named(place, capsys, damage):
    done = results.FitResult(steps=3, seconds=1.0)
    with place.open(RECIPE):
        for _ in range(2):
            place.step("results/a-1.json", results.FitResult, lambda: done)
        (place.path / "results" / "a-1.json").write_text(damage)
        again = place.step(
            "results/a-1.json", results.FitResult, lambda: done.model_copy(update={"steps": 4})
        )
        assert again.steps == 4
        assert place.step("results/a-1.json", results.FitResult, lambda: done).steps == 4
    said = capsys.readouterr().err
    assert "results/a-1.json" in said and said.strip().endswith("This step is done again.")


def test_the_result_of_another_step_is_refused(place):
    def result(folder):
        return results.ModelResult(name="full", role="student", folder=folder)

    with place.open(RECIPE):
        one, two = (
            place.step(f"results/{name}.json", results.ModelResult, lambda n=name: result(n))
            for name in ("one", "two")
        )
        assert place.step("results/one.json", results.ModelResult, None, folder="one") == one
        results.write_result_file(two, place.path / "results" / "one.json")
        with pytest.raises(errors.DataError, match=r"'folder': 'one'.*received.*'two'"):
            place.step("results/one.json", results.ModelResult, None, folder="one")


def test_the_commits_of_models_from_the_hub_are_recorded(place, monkeypatch):
    hub = {"someone/bert@v1": "a" * 40, "someone/general": "b" * 40}
    monkeypatch.setattr("tfdistill.weights.hub_commit", lambda source: hub.get(str(source)))
    changes = ["teacher.source=someone/bert@v1", "teacher.general=someone/general"]
    recipe = config.parse_recipe(RECIPE.model_dump(mode="json"), changes, source="test")
    with place.open(recipe):
        recorded = json.loads((place.path / folder.ENVIRONMENT).read_text())
    assert recorded["checkpoints"] == hub


def test_a_saved_recipe_that_was_changed_since_is_refused(place):
    with place.open(RECIPE):
        (place.path / "teacher").mkdir()
    saved = place.path / config.RECIPE_FILE
    assert config.saved_recipe(place.path) == RECIPE
    changed = saved.read_text().replace("export:", "export: ", 1)
    assert changed != saved.read_text()
    saved.write_text(changed)
    with (
        pytest.raises(errors.ConfigError, match=r"the recipe that environment\.json records"),
        place.open(RECIPE, resume=True),
    ):
        pass
    saved.unlink()  # as after a kill between the two files
    with place.open(RECIPE, resume=True):
        assert config.saved_recipe(place.path) == RECIPE


def test_a_run_of_an_earlier_version_with_a_file_for_an_npu_is_read_and_continued(place, caplog):
    with place.open(RECIPE):
        (place.path / "teacher").mkdir()
    saved, recorded = place.path / config.RECIPE_FILE, place.path / folder.ENVIRONMENT
    values = yaml.safe_load(saved.read_text())
    values["export"]["variants"] = {"npu": "static_wi8_ai8", "gpu": "float32"}
    saved.write_text(yaml.safe_dump(values))
    digest = hashlib.sha256(saved.read_bytes()).hexdigest()
    recorded.write_text(json.dumps({"recipe_sha256": digest}))

    assert config.saved_recipe(place.path).export.variants == {"gpu": "float32"}
    recipe = config.load_recipe(str(saved))  # what `run RUN/recipe.yaml --resume` reads
    assert caplog.messages == [
        f"{saved}: export.variants.npu is left out: see Removed in CHANGELOG.md"
    ]
    with place.open(recipe, resume=True):
        assert hashlib.sha256(saved.read_bytes()).hexdigest() == digest
    with pytest.raises(errors.ConfigError, match=r"variants\.gpu"), place.open(RECIPE, resume=True):
        pass  # without the file for a GPU, it is another recipe
    copy = place.path.with_name(config.RECIPE_FILE)  # a recipe that no run recorded
    copy.write_bytes(saved.read_bytes())
    with pytest.raises(errors.ConfigError, match=r"export\.variants\.npu: expected 'gpu'"):
        config.load_recipe(str(copy))


def test_a_toy_run_of_an_earlier_version_is_read_with_its_generated_data(place, caplog):
    with place.open(RECIPE):
        (place.path / "data").mkdir()
    saved, recorded = place.path / config.RECIPE_FILE, place.path / folder.ENVIRONMENT
    values = yaml.safe_load(saved.read_text())
    values["data"] |= {"task": "sst2", "dir": None}
    for generated in (False, True):
        values["data"]["placeholder_data"] = generated
        saved.write_text(yaml.safe_dump(values))
        digest = hashlib.sha256(saved.read_bytes()).hexdigest()
        recorded.write_text(json.dumps({"recipe_sha256": digest}))
        assert config.data_of_run(str(place.path)).dir == str(place.path / "data")
        assert len(caplog.messages) == generated
    assert "data.placeholder_data is left out" in caplog.text
    copy = place.path.with_name(config.RECIPE_FILE)
    copy.write_bytes(saved.read_bytes())
    with pytest.raises(errors.ConfigError, match=r"data\.placeholder_data"):
        config.load_recipe(str(copy))


def test_a_fault_discards_what_this_session_prepared_alone(place):
    def failing(**options):
        with pytest.raises(errors.DataError), place.open(RECIPE, **options):
            (place.path / "data").mkdir(exist_ok=True)
            (place.path / "data" / "augmented.tsv").write_text("hours of work")
            raise errors.DataError("the examples", "as before", "others")

    failing()
    assert not place.path.exists()
    with pytest.raises(KeyboardInterrupt), place.open(RECIPE):
        raise KeyboardInterrupt
    failing(resume=True)
    assert config.saved_recipe(place.path) == RECIPE
    assert (place.path / "data" / "augmented.tsv").is_file()
