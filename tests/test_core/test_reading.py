import json

import pytest

from tfdistill import errors
from tfdistill.io import files, reading


def deep(levels, open_="[", close="]"):
    return open_ * levels + close * levels


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (deep(50_000), "levels of nesting"),
        (deep(102), "levels of nesting"),
        ('{"a": ' + "1" * 4301 + "}", "an integer of 4301 digits"),
        ('{"a": -' + "1" * 21 + "}", "an integer of 22 digits"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        (b'{"a": "\xe9"}', "can't decode byte 0xe9"),
        ("{", "a fault: "),
        ("", "a fault: "),
        ('{"a": {"b": 1, "c": 2, "b": 1}}', "the key 'b' twice"),
        ('[{"": 1, "": 1}]', "the key '' twice"),
    ],
)
def test_faulty_json_is_one_error_that_names_the_file(tmp_path, content, reason):
    path = tmp_path / "a.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(errors.WeightsError, match="JSON") as caught:
        reading.read_json(path, error=errors.WeightsError, remedy="Fetch it.")
    assert reason in str(caught.value)
    assert str(path) in str(caught.value) and str(caught.value).endswith("Fetch it.")


def test_json_within_bounds_is_what_json_reads(tmp_path):
    value = {"a": [1, -(2**63), 2**63 - 1, 1.5, None, True, "é😀"], "b": {}}
    path = tmp_path / "a.json"
    for ascii_only in (True, False):  # pairs of surrogates are whole characters
        path.write_text(json.dumps(value, ensure_ascii=ascii_only), encoding="utf-8")
        assert reading.read_json(path) == value
    assert reading.parse_json(deep(100), "it") == json.loads(deep(100))
    unlimited = '{"model_max_length": 1000000000000000019884624838656}'  # as transformers writes it
    assert reading.parse_json(unlimited, "it") == {"model_max_length": int(1e30)}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (deep(50_000), "nesting"),
        ("a: " + "1" * 4301, "an integer of more than 20 digits"),
        ("&a [*a]", "nesting"),
        ("a: !!bool maybe", "the tag 'tag:yaml.org,2002:bool'"),
        ("a: !!timestamp x", "the tag"),
        ("a: !!map [1]", "the tag"),
        ('a: !!int ""', "the tag"),
        ("a: 0x" + "f" * 60, "an integer of more than 20 digits"),
        ('a: "\\ud800"', "half of a surrogate pair"),
        (
            "l0: &l0 {k: 1}\n"
            + "".join(f"l{n + 1}: &l{n + 1} {{<<: [{f'*l{n}, ' * 10}]}}\n" for n in range(9)),
            "a mapping of more than 10000 keys",
        ),
        ("a: [", "a fault: "),
        ("a: \x00", "special characters"),
        ("a: !!python/object/apply:os.system [x]", "the tag"),
        (b"a: \xe9", "byte 0xe9"),
        (
            "a0: &a0 [1]\n"
            + "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]\n" for n in range(9)),
            "more than 1000000 nodes",
        ),
    ],
)
def test_faulty_yaml_is_one_error(tmp_path, content, reason):
    path = tmp_path / "a.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(errors.ConfigError) as caught:
        reading.read_yaml(path)
    assert reason in str(caught.value) and str(path) in str(caught.value)


def test_text_in_another_encoding_names_line_and_byte_and_a_null_in_a_path_is_an_error(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"a\nb\xe9\n")
    with pytest.raises(errors.VocabularyError) as caught:
        reading.read_text(path, error=errors.VocabularyError)
    assert f"{path}, line 2" in str(caught.value)
    assert "byte 0xe9 at position 3" in str(caught.value)
    assert reading.read_text(path, encoding="latin-1") == "a\nbé\n"
    path.write_bytes(b"\xef\xbb\xbfa")
    assert reading.read_text(path) == "a"
    with pytest.raises(errors.DataError, match="null"):
        reading.read_text("a\0b")


@pytest.mark.parametrize("content", ["a: 1\nb: 2\na: 3", "x: {k: 1, k: 2}", "- {'k': 1, k: 2}"])
def test_a_key_that_occurs_twice_is_refused_by_name(content):
    with pytest.raises(errors.ConfigError, match=r"the key '[ak]' twice, again on line"):
        reading.parse_yaml(content, "recipe")


def test_dates_are_text_and_a_merged_mapping_may_be_overridden():
    assert reading.parse_yaml("a: 2020-01-02\nb: 2020-99-99", "recipe") == {
        "a": "2020-01-02",
        "b": "2020-99-99",
    }
    value = reading.parse_yaml("base: &b {k: 1, l: 2}\nown: {<<: *b, k: 3}", "recipe")
    assert value["own"] == {"k": 3, "l": 2}


OURS = {
    "format_version": 1,
    "labels": {"b": 0, "a": 1},
    "p50": [0.1, 1e-7, -0.0],
    "text": "é\u2028",
}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"format_version": 1', '"format_version": true'),
        ('"b": 0,\n    "a": 1', '"a": 1,\n    "b": 0'),
        ("-0.0", "0.0"),
        ("é", "e"),
        ('"p50"', '"p60"'),
    ],
)
def test_a_value_that_was_changed_is_refused_and_an_edit_on_purpose_taken(tmp_path, before, after):
    path = tmp_path / "a.json"
    files.atomic_write_json(path, OURS)
    text = path.read_text("utf-8")
    assert text.count(before) == 1
    path.write_text(text.replace(before, after), "utf-8")
    with pytest.raises(errors.WeightsError, match="delete its line 'checksum'"):
        reading.read_json(path, error=errors.WeightsError)
    edited = json.loads(path.read_text("utf-8"))
    del edited[files.CHECKSUM]
    path.write_text(json.dumps(edited))
    assert reading.read_json(path) == edited


@pytest.mark.parametrize("value", ["x", 3, None, ["sha256:"]])
def test_what_is_no_checksum_in_its_place_is_refused(tmp_path, value):
    (tmp_path / "a.json").write_text(json.dumps({**OURS, "checksum": value}))
    with pytest.raises(errors.DataError, match="checksum"):
        reading.read_json(tmp_path / "a.json")
