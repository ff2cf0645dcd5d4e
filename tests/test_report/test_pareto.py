import itertools
import random

from tfdistill.report.tradeoff import front


def point(accuracy, latency, size, interval=None):
    """The costs of a file; accuracy counts the other way."""
    latencies = interval or (latency, latency)
    return (-accuracy, -accuracy), latencies, (size, size)


def test_a_latency_counts_as_better_only_where_the_intervals_do_not_touch():
    slow = point(0.9, 1.1, 10, (1.0, 1.2))
    assert front([slow, point(0.9, 0.95, 10, (0.9, 1.0))]) == [True, True]  # they touch
    assert front([slow, point(0.9, 0.9, 10, (0.85, 0.95))]) == [False, True]
    # Not clearly slower, more accurate: there is no reason left to take the other one.
    assert front([point(0.89, 0.95, 10, (0.9, 1.05)), slow]) == [False, True]
    assert front([point(0.89, 0.9, 10, (0.85, 0.95)), slow]) == [True, True]


def test_the_front_is_that_of_the_definition_whatever_the_order():
    draw = random.Random(0)
    for _ in range(50):
        points = [
            point(draw.choice([0.8, 0.85, 0.9]), draw.choice([1.0, 2.0, 3.0]), draw.randrange(4))
            for _ in range(12)
        ]
        expected = [
            not any(all(a[0] <= b[0] for a, b in zip(q, p, strict=True)) and q != p for q in points)
            for p in points
        ]
        assert front(points) == expected
        order = draw.sample(range(12), 12)
        assert front([points[i] for i in order]) == [expected[i] for i in order]


def test_two_points_never_dominate_each_other_and_some_point_is_always_on_the_front():
    draw = random.Random(1)
    for _ in range(50):
        points = []
        for _ in range(9):
            low = draw.uniform(1, 3)
            interval = (low, low + draw.uniform(0, 1))
            points.append(point(draw.choice([0.8, 0.9]), low, draw.randrange(3), interval))
        assert any(front(points))
        for one, other in itertools.combinations(points, 2):
            assert any(front([one, other]))
