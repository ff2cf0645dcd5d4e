import numpy as np
import pytest

from tfdistill import results, tasks
from tfdistill.data import answers
from tfdistill.run import records
from tfdistill.tasks import spec

TASK = spec.TaskSpec("kinds", "text", "kind", labels=("a", "b", "c"))
HEAD = "epoch,step,loss,learning_rate\n"


@pytest.fixture
def run_dir(tmp_path):
    """A run folder; a function that writes answers and a history there and names the causes."""

    def causes(*, rows, teacher=4.0, student=None, initialise="auto"):
        gold = np.arange(30, dtype=np.int32) % 3
        examples = tasks.Examples(TASK, [f"text {i}" for i in range(30)], None, gold)
        logits = {"teacher": teacher * np.eye(3)[gold], "student": np.eye(3)[gold]}
        if student is not None:
            logits["student"] = np.tile(np.eye(3)[student], (30, 1))
        for folder, values in logits.items():
            (tmp_path / folder).mkdir(exist_ok=True)
            recorded = answers.of_examples(examples, {"model": values})
            assert recorded is not None
            answers.write(recorded, tmp_path / folder / answers.FILE_NAME)
        (tmp_path / "history.csv").write_text(HEAD + "".join(f"{row}\n" for row in rows))
        model = results.ModelResult(
            name="student",
            role="student",
            stages=("joint",),
            folder="student",
            history=(results.HistoryFile(stage="joint", csv="history.csv"),),
        )
        return records.likely_causes(tmp_path, model, initialise=initialise)

    return causes


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"rows": ["1,20,2.0,5e-4", "2,40,1.0,5e-4"]},
            "it had 40 updates: give it more, with --set stages.joint.epochs=N",
        ),
        (
            {"rows": ["1,800,2.0,1e-7", "2,1600,1.99,1e-7"]},
            "1.0e-07: try a higher rate, --set stages.joint.learning_rate=3.0e-07",
        ),
        (
            {"rows": ["1,800,2.0,0.1", "2,1600,2.5,0.1"]},
            "1.0e-01: try a lower rate, --set stages.joint.learning_rate=3.3e-02",
        ),
        ({"rows": ["1,800,2,1", "2,900,1,1"], "teacher": 0.1}, "nearly uniform (entropy 1.00"),
        ({"rows": ["1,800,2,1", "2,900,1,1"], "initialise": "random"}, "random weights"),
        ({"rows": ["1,800,2,1", "2,900,1,1"], "student": 1}, "one answer to 100% of the examples"),
    ],
)
def test_each_cause_is_computed_from_what_the_training_left(run_dir, options, said):
    (cause,) = run_dir(**options)
    assert said in cause
    assert run_dir(rows=["1,800,2.0,5e-4", "2,1600,1.0,5e-4"]) == []  # nothing stands out
