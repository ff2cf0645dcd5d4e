"""A search that distils its proposals a little: ranks, recipes and the page."""

import pytest
import simulated_device
from simulated_device import Phone, run

from tfdistill import errors, results
from tfdistill.search import page, result

TEACHER, TFIDF = 0.93, 0.72


def figures(students, equal=1):
    """Metrics that fall with the width; the `equal` best are within chance of each other."""
    widths = {name: int(name.split("_")[1].removesuffix("d")) for name in students}
    reached = {name: 0.7 + width / 5000 for name, width in widths.items()}
    order = sorted(reached, key=lambda name: -reached[name])
    rows = (
        results.BaselineResult(name="majority", metrics={"accuracy": 0.2}, parameters=6),
        results.BaselineResult(
            name="tfidf", metrics={"accuracy": TFIDF}, parameters=50_000, latency_ms=0.4
        ),
    )
    return results.CandidateMetrics(
        task="sst2",
        metric="accuracy",
        num_examples=500,
        teacher=TEACHER,
        baselines=rows,
        students=reached,
        within_chance=tuple(order[:equal]),
    )


class Distil:
    def __init__(self, phone, equal=1):
        self.phone, self.equal, self.asked = phone, equal, []

    def __call__(self, students):
        self.asked.append((dict(students), self.phone.calls))
        return result.ShortDistillation(updates=60, figures=figures(students, self.equal))


@pytest.fixture(scope="module")
def distilled(tmp_path_factory):
    folder, phone = tmp_path_factory.mktemp("distilled"), Phone(noise=0.01)
    distil = Distil(phone, equal=3)
    return folder, distil, run(folder, phone, method="pruned", distil=distil)


def test_the_teacher_is_tried_first_and_then_every_proposal_by_its_short_form(distilled):
    _, distil, found = distilled
    (nobody, calls), (students, _) = distil.asked
    assert (nobody, calls) == ({}, 0)  # before anything was measured
    assert set(students) == {proposal.name for proposal in found.proposals}
    shape = found.proposals[0].config
    assert students[found.proposals[0].name] == (
        f"pruned:layers={shape['num_layers']},ffn={shape['intermediate_size']},"
        f"heads={shape['num_heads']},width={shape['hidden_size']}"
    )


def test_proposals_are_ranked_by_what_they_reach_and_the_fastest_of_equals_is_chosen(distilled):
    folder, _, found = distilled
    metrics = [proposal.metric for proposal in found.proposals]
    assert metrics == sorted(metrics, reverse=True)
    equal = [p for p in found.proposals if p.name in found.distillation.figures.within_chance]
    assert len(equal) == 3
    assert found.chosen.measured_ms == min(proposal.measured_ms for proposal in equal)
    assert (
        f"# After 60 updates: accuracy {metrics[0]:.4f} (its teacher: 0.9300)."
        in (folder / found.proposals[0].recipe).read_text()
    )
    text = (folder / "search.txt").read_text()
    assert f"fastest within chance of the best: {found.chosen.name}" in text
    assert "tfidf: 0.7200" in text and f"{metrics[-1]:.4f}" in text
    assert result.read_result(folder).model_dump(mode="json") == found.model_dump(mode="json")


def test_the_teacher_is_measured_like_the_students(distilled):
    _, _, found = distilled
    truth = simulated_device.true_latency(simulated_device.TEACHER.config, 64)
    assert found.measured_teacher.measured_ms == pytest.approx(truth, rel=0.1)


def test_the_page_has_students_teacher_and_baselines_in_one_picture(distilled):
    folder, _, found = distilled
    built = page.build(found)
    chosen = found.chosen
    assert built.headline.startswith(f"{chosen.name} is the fastest student within chance")
    (latency, size) = built.sections[0].parts[0].pictures
    for picture in (latency, size):
        assert "teacher: 93.0% at" in picture.chart and "TF-IDF: 72.0%, a line" in picture.chart
        assert "Below the picture: one answer for all 20.0%" in picture.caption
        assert chosen.name.removesuffix("_gelu") in picture.chart
    shapes = built.sections[0].parts[1].tables[0]
    verdicts = [row.cells[1].text for row in shapes.rows]
    assert verdicts.count("within chance of the best") == 3 and "worse" in verdicts
    assert (folder / "report.html").is_file() and (folder / "report-tables/shapes.csv").is_file()


def test_a_baseline_that_reaches_as_much_is_the_first_sentence(distilled):
    _, _, found = distilled
    metrics = found.distillation.figures
    rows = tuple(
        row.model_copy(update={"metrics": {"accuracy": 0.99}}) if row.name == "tfidf" else row
        for row in metrics.baselines
    )
    better = metrics.model_copy(update={"baselines": rows})
    trained = found.distillation.model_copy(update={"figures": better})
    built = page.build(found.model_copy(update={"distillation": trained}))
    assert built.headline.startswith("TF-IDF and a linear model reaches 99.0%: no less than")


def test_students_that_start_far_from_their_teacher_are_not_distilled_a_little(tmp_path):
    phone = Phone()
    with pytest.raises(errors.ConfigError, match="expected pruned students"):
        run(tmp_path, phone, method="logits", distil=Distil(phone))
    assert not phone.calls
