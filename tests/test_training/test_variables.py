import numpy as np
import pytest
import tensorflow as tf

from tfdistill import errors
from tfdistill.training import checkpoints, variables


def held(*values):
    return [tf.Variable(value, name=f"layer/{i}") for i, value in enumerate(values)]


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "start.safetensors"
    variables.save(held([1.0, 2.0], [3.0]), path, made_from="one", beside={"kept": np.arange(2)})
    return path


def test_variables_and_what_lies_beside_them_come_back(saved):
    loaded = held([0.0, 0.0], [0.0])
    more = variables.load(loaded, saved, made_from="one", beside=("kept", "basis"))
    assert [variable.numpy().tolist() for variable in loaded] == [[1.0, 2.0], [3.0]]
    assert {name: array.tolist() for name, array in more.items()} == {"kept": [0, 1]}


@pytest.mark.parametrize(
    ("values", "made_from", "beside", "said"),
    [
        (([0.0, 0.0], [0.0]), "two", ("kept",), "arrays made from two"),
        (([0.0, 0.0], [0.0]), "one", (), "the weights of this model"),
        (([0.0, 0.0],), "one", ("kept",), "the weights of this model"),
        (([0.0], [0.0]), "one", ("kept",), "the weights of this model"),
    ],
)
def test_what_belongs_to_something_else_is_not_loaded(saved, values, made_from, beside, said):
    loaded = held(*values)
    with pytest.raises(errors.WeightsError, match=said):
        variables.load(loaded, saved, made_from=made_from, beside=beside)
    assert not any(variable.numpy().any() for variable in loaded)


def test_checkpoints_of_a_fit_that_is_over_go_and_nothing_else(tmp_path):
    root, home = tmp_path / "run", tmp_path / "home"
    written = (
        *("last/checkpoint", "last/ckpt-5.index", "last/ckpt-5.data-00000-of-00001"),
        *("last/ckpt-4_temp/part-00000", "best/checkpoint", "best/ckpt-3.index"),
    )
    for name in written:
        for place in (root / "teacher" / "checkpoints", root / "checkpoints", home):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text("")
    users_files = root / "checkpoints" / "last" / "ckpt.txt", root / "teacher" / "history.csv"
    for path in users_files:
        path.write_text("")
    (root / "linked").mkdir()
    (root / "linked" / "checkpoints").symlink_to(home)
    checkpoints.remove(root)
    assert sorted(path for path in root.rglob("*") if path.is_file()) == sorted(users_files)
    assert {path.name for path in root.iterdir()} == {"checkpoints", "teacher", "linked"}
    assert not (root / "teacher" / "checkpoints").exists()
    assert all((home / name).exists() for name in written)
    checkpoints.remove(root / "absent")
