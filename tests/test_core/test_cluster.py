import json

import pytest

from tfdistill import errors
from tfdistill.io import cluster

CHIEF = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}
ALIKE = {"worker": ["a:1", "b:1"]}


def set_config(monkeypatch, hosts, role="worker", index: object = 0):
    config = {"cluster": hosts, "task": {"type": role, "index": index}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))


@pytest.mark.parametrize(
    ("hosts", "role", "index", "expected"),
    [
        (ALIKE, "worker", 0, cluster.Worker(0, 2)),
        (ALIKE, "worker", "1", cluster.Worker(1, 2)),  # some schedulers write text
        (CHIEF, "chief", 0, cluster.Worker(0, 3)),
        (CHIEF, "worker", 0, cluster.Worker(1, 3)),
        (CHIEF, "worker", 1, cluster.Worker(2, 3)),
        ({"chief": ["a:1"]}, "chief", 0, None),
    ],
)
def test_workers_are_counted_from_the_chief(monkeypatch, hosts, role, index, expected):
    set_config(monkeypatch, hosts, role, index)
    assert cluster.this_worker() == expected
    assert cluster.keeps_files() == (expected is None or expected.index == 0)


@pytest.mark.parametrize("text", ["", " ", "{}"])
def test_without_a_cluster_there_is_one_process(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    assert cluster.this_worker() is None
    assert cluster.keeps_files()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "TF_CONFIG, line 1: expected JSON with a cluster"),
        ("[" * 9_000, "TF_CONFIG.*levels of nesting"),
        ('{"cluster": {}, "cluster": {}}', "the key 'cluster' twice"),
        (json.dumps({"cluster": {"worker": 2}}), "received TypeError"),
        (json.dumps({"cluster": {"worker": ["a:1", "a:1"]}}), "of its own for each.*'a:1'"),
        (json.dumps({"cluster": {"worker": ["a:1", "b"]}}), "host:port of its own.*'b'"),
        ("[]", "TF_CONFIG: expected JSON with a cluster"),
        (json.dumps({"cluster": ALIKE}), r"received KeyError\('task'\)"),
    ],
)
def test_what_tensorflow_would_not_read_is_refused(monkeypatch, text, message):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(errors.ConfigError, match=message):
        cluster.this_worker()


@pytest.mark.parametrize(
    ("role", "index"), [("ps", 0), ("evaluator", 0), ("worker", 2), ("worker", -1)]
)
def test_a_process_that_does_not_train_is_refused(monkeypatch, role, index):
    set_config(monkeypatch, CHIEF, role, index)
    with pytest.raises(errors.ConfigError, match=f"of 1 chiefs or 2 workers.*{role} {index}"):
        cluster.this_worker()
