import subprocess
import sys

import pytest

from tfdistill import errors
from tfdistill.data import synthetic


def test_the_same_seed_gives_the_same_commands():
    assert synthetic.generate(50, 3) == synthetic.generate(50, 3)
    assert synthetic.generate(50, 3) != synthetic.generate(50, 4)
    longer, shorter = synthetic.generate(80, 3), synthetic.generate(50, 3)
    assert [column[:50] for column in longer] == list(shorter)
    assert synthetic.generate_corpus(3, 1) == synthetic.generate_corpus(3, 1)


def test_commands_do_not_depend_on_the_hash_seed():
    program = "from tfdistill.data import synthetic; print(synthetic.generate(30, 3))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_more_commands_than_there_are_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(synthetic, "generate", lambda num, seed: (["a"] * num, ["b"] * num))
    with pytest.raises(errors.DataError, match="expected 8000 different ones, received 1"):
        synthetic.write_task(tmp_path)
    assert not list(tmp_path.iterdir())
