"""What a stage may compress, with which options, and in which order."""

import pytest

from tfdistill import config, errors

OPTIONS = {
    "sparsity": ("prune", 0.75),
    "begin": ("prune", 0.1),
    "end": ("prune", 0.9),
    "block_size": ("prune", [4, 1]),
    "clusters": ("cluster", 8),
    "start": ("cluster", "density"),
}
METHODS = ("prune", "cluster", "quantize")


def recipe(*compressed, **options):
    """A recipe of one variant: a plain stage, then one for each of `compressed`."""
    stages = {"plain": {"kind": "prediction"}}
    for index, method in enumerate(compressed):
        values = {"kind": "prediction", **options}
        if method is not None:
            values["compress"] = {"method": method} if isinstance(method, str) else method
        stages[f"stage_{index}"] = values
    return config.parse_recipe(
        {
            "name": "toy",
            "data": {"task": "sst2"},
            "teacher": "bert",
            "student": "bert_tiny",
            "stages": stages,
            "variants": {"all": {"stages": list(stages)}},
        }
    )


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("method", METHODS)
def test_an_option_is_taken_by_its_method_and_refused_by_the_others(method, option):
    reader, value = OPTIONS[option]
    if method == reader:
        read = getattr(recipe({"method": method, option: value}).stages["stage_0"].compress, option)
        assert (list(read) if isinstance(read, tuple) else read) == value
        return
    with pytest.raises(errors.ConfigError, match=rf"{option}: expected none with method {method}"):
        recipe({"method": method, option: value})


@pytest.mark.parametrize(
    ("order", "told"),
    [
        (("quantize", "prune"), "after a stage that does quantize no further stage"),
        (("cluster", "prune"), "compress.method quantize, received stage_1 \\(prune\\)"),
        (("prune", None), "received stage_1 \\(no compress\\), which would undo it"),
        (("prune", "prune"), "compress.method cluster or quantize"),
    ],
)
def test_an_order_that_would_undo_an_earlier_method_is_refused(order, told):
    with pytest.raises(errors.ConfigError, match=told):
        recipe(*order)


def test_two_clusters_are_too_few_after_pruning():
    two = {"method": "cluster", "clusters": 2}
    recipe(two)
    with pytest.raises(errors.ConfigError, match=r"stage_1.compress.clusters: expected at least 3"):
        recipe("prune", two)


@pytest.mark.parametrize(
    ("compress", "options", "told"),
    [
        ({"method": "prune", "begin": 0.8}, {}, "begin"),
        ({"method": "prune", "sparsity": 1}, {}, "sparsity"),
        ({"method": "prune", "block_size": [0, 1]}, {}, "block_size"),
        ({"method": "cluster", "clusters": 300}, {}, "clusters"),
        ({"method": "quantise"}, {}, "method"),
        ({"method": "quantize", "sparsety": 0.5}, {}, "sparsity"),
        ({"method": "quantize", "teacher": "student"}, {"kind": "labels"}, "has no teacher"),
        ({"method": "prune"}, {"keep_best": True}, "keep_best"),
        ({"method": "prune"}, {"patience": 2}, "patience"),
        ({"method": "quantize"}, {"kind": "relations", "reads": "corpus"}, "Compress in a later"),
        ({"method": "quantize"}, {"kind": "mlm"}, "compress: expected none in a stage of kind mlm"),
    ],
)
def test_what_a_stage_cannot_do_says_why(compress, options, told):
    with pytest.raises(errors.ConfigError, match=told):
        recipe(compress, **options)


def test_a_head_to_keep_needs_a_folder():
    values = recipe("quantize").model_dump(mode="json")
    values["student"]["keep_head"] = True
    faults = config.missing_inputs(config.parse_recipe(values))
    assert [fault for fault in faults if fault.startswith("student.keep_head")]
