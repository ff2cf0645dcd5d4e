import random

from tfdistill.report.plot import labels


def boxes(points, placed, reach=6.0):
    occupied = [(x - reach, y - reach, x + reach, y + reach) for x, y in points]
    for label in placed:
        if label is not None:
            width = labels.width_of(label.text)
            left = label.x - {"start": 0, "middle": width / 2, "end": width}[label.anchor]
            occupied.append((left, label.y - 11, left + width, label.y + 3))
    return occupied


def overlap(one, other):
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def test_no_name_covers_another_or_a_mark_or_leaves_the_frame():
    draw = random.Random(0)
    frame = (40.0, 20.0, 350.0, 250.0)
    for number in (1, 2, 12, 30):
        points = [(draw.uniform(60, 330), draw.uniform(40, 230)) for _ in range(number)]
        texts = [[f"a name of file {i}", str(i)] for i in range(number)]
        placed = labels.place(points, texts, frame)
        occupied = boxes(points, placed)
        names = occupied[number:]
        for i, name in enumerate(names):
            assert frame[0] <= name[0] and name[2] <= frame[2]
            assert frame[1] <= name[1] and name[3] <= frame[3]
            assert not any(overlap(name, other) for other in names[i + 1 :])
        labelled = [p for p, label in zip(points, placed, strict=True) if label is not None]
        for (x, y), name in zip(labelled, names, strict=True):
            for px, py in points:
                if (px, py) != (x, y):
                    assert not overlap(name, (px - 6, py - 6, px + 6, py + 6))


def test_a_point_without_any_room_goes_without_a_name():
    assert labels.place([(10.0, 10.0)], [["long name"]], (0.0, 0.0, 20.0, 20.0)) == [None]
    assert labels.place([(10.0, 10.0)], [[]], (0.0, 0.0, 90.0, 90.0)) == [None]
