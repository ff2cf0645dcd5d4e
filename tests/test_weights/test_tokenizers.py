import pytest

from tfdistill import errors
from tfdistill.weights import tokenizers


@pytest.mark.parametrize(
    ("settings", "lower_case"),
    [
        ({}, True),
        ({"do_lower_case": False}, False),
        ({"do_lower_case": False, "strip_accents": False}, False),
        ({"do_lower_case": True, "strip_accents": True}, True),
        ({"strip_accents": None, "tokenizer_class": "DistilBertTokenizerFast"}, True),
        ({"never_split": [], "pad_token": {"content": "[PAD]", "lstrip": False}}, True),
    ],
)
def test_berts_tokenizer_is_taken_with_its_case(settings, lower_case):
    assert tokenizers.check_settings(settings) is lower_case


@pytest.mark.parametrize(
    "settings",
    [
        {"strip_accents": False},
        {"do_lower_case": False, "strip_accents": True},
        {"tokenize_chinese_chars": False},
        {"tokenizer_class": "BertJapaneseTokenizer"},
        {"never_split": ["w"]},
        {"do_basic_tokenize": False},
        {"unk_token": "<unk>"},
        {"do_lower_case": "yes"},
        {"mask_token": {"content": "<mask>"}},
    ],
    ids=lambda settings: "-".join(settings),
)
def test_a_setting_that_our_tokenizer_lacks_is_refused_by_name(settings):
    with pytest.raises(errors.WeightsError, match=list(settings)[-1]):
        tokenizers.check_settings(settings)


def test_all_such_settings_are_named_at_once():
    settings = {"strip_accents": False, "tokenize_chinese_chars": False}
    with pytest.raises(errors.WeightsError, match=r"tokenize_chinese_chars[^$]*strip_accents"):
        tokenizers.check_settings(settings)
