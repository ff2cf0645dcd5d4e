import subprocess
import sys

import pytest

from tfdistill import errors, tasks
from tfdistill.data import synthetic

PHRASES = synthetic.PHRASES


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


def test_every_slot_that_a_phrase_names_has_fillers():
    groups = [
        *PHRASES["commands"].values(),
        *PHRASES["questions"].values(),
        *PHRASES["slots"].values(),
    ]
    named = {
        slot
        for template in [*PHRASES["asides"], *(text for group in groups for text in group)]
        for slot in synthetic._SLOT.findall(template)
    }
    assert named == set(PHRASES["slots"])
    assert set(PHRASES["questions"]) == set(PHRASES["commands"])


def test_words_alone_do_not_tell_the_intent(tmp_path):
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    spec = synthetic.write_task(tmp_path, num_train=3000, num_dev=600, num_test=0, num_documents=1)
    train, dev = (tasks.load_examples(spec, tmp_path, split) for split in ("train", "dev"))
    counts = CountVectorizer(token_pattern=r"\S+")
    model = LogisticRegression(max_iter=1000).fit(counts.fit_transform(train.texts), train.labels)
    accuracy = model.score(counts.transform(dev.texts), dev.labels)
    assert 0.7 < accuracy < 0.92  # 0.84 here; half of the contrasts must be guessed


def test_more_commands_than_there_are_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(synthetic, "generate", lambda num, seed: (["a"] * num, ["b"] * num))
    with pytest.raises(errors.DataError, match="expected 8000 different ones, received 1"):
        synthetic.write_task(tmp_path)
    assert not list(tmp_path.iterdir())
