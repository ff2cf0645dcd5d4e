import pytest

from tfdistill import errors, models

SHAPE = {"num_layers": 2, "hidden_size": 16, "num_heads": 4, "intermediate_size": 24}
BERT = models.EncoderConfig(**SHAPE)
MOBILEBERT = models.MobileBertConfig(
    **{**SHAPE, "num_heads": 2}, embedding_size=6, bottleneck_size=8
)
BILSTM, STATIC = models.preset("bilstm_1l_150d"), models.preset("static")

# The counts of the papers and of the released checkpoints, with 30,522 words, 512 positions, two
# token types and, except for DistilBERT and the MobileBERTs, a pooler. Medium, mini and tiny: the
# released BERT miniatures; TinyBERT 2 layers has BERT-tiny's shape. The small pair of MobileBERT
# and IB-BERT, the BiLSTMs, of 300-wide vectors, and "static" are our own: counted by hand from the
# widths.
PARAMETERS = {
    "bert_base": 109_482_240,
    "bert_large": 335_141_888,
    "bert_medium": 41_373_184,
    "bert_small": 28_763_648,
    "bert_mini": 11_170_560,
    "bert_tiny": 4_385_920,
    "bert_4l_768d": 52_779_264,
    "minilm_6l_384d": 22_713_216,
    "tinybert_2l_128d": 4_385_920,
    "tinybert_3l_192d": 7_330_944,
    "tinybert_4l_312d": 14_350_248,
    "tinybert_6l_768d": 66_955_008,
    "distilbert_6l_768d": 66_362_880,
    "mobilebert": 24_581_888,
    "mobilebert_25m": 25_359_104,
    "mobilebert_tiny": 15_485_696,
    "mobilebert_without_opt": 24_581_888,
    "mobilebert_6l_128d": 2_367_488,
    "ib_bert_large": 294_205_184,
    "ib_bert_6l_128d": 6_593_024,
    "bilstm_1l_150d": 9_818_200,
    "bilstm_1l_150d_siamese": 10_178_200,
    "static": 3_923_328,  # 30522 x 128 + 129 x 128
}


def test_every_preset_has_the_published_number_of_parameters():
    assert {name: models.count_parameters(models.preset(name)) for name in models.presets()} == (
        PARAMETERS
    )


@pytest.mark.parametrize(
    ("name", "gigaflops"),
    [
        ("bert_base", 22.35),
        ("tinybert_6l_768d", 11.17),
        ("tinybert_4l_312d", 1.25),
        ("mobilebert", 5.39),
        ("mobilebert_tiny", 3.07),
    ],
)
def test_flops_at_128_tokens_are_the_published_ones(name, gigaflops):
    flops = models.flops(models.preset(name), 128)
    assert isinstance(flops, int)
    assert round(flops / 1e9, 2) == gigaflops


def test_electra_small_has_the_published_number_of_parameters():
    shape = models.EncoderConfig(
        family="electra",
        num_layers=12,
        hidden_size=256,
        num_heads=4,
        intermediate_size=1024,
        embedding_size=128,
        pooler=False,
    )
    assert models.count_parameters(shape) == 13_483_008  # of the released discriminator
    assert models.flops(shape, 8) - models.flops(shape.replace(num_layers=11), 8) == (
        models.flops(shape.replace(family="bert"), 8)
        - models.flops(shape.replace(family="bert", num_layers=11), 8)
    )


def test_flops_of_the_head_are_those_of_its_two_dense_layers():
    assert models.flops(BERT, 8, num_labels=3) - models.flops(BERT, 8) == 2 * 16 * (16 + 3)


def test_flops_of_a_head_over_tokens_are_those_of_one_dense_layer_for_each():
    counted = models.flops(BERT, 8, num_labels=3, over_tokens=True)
    assert counted - models.flops(BERT, 8) == 2 * 8 * 16 * 3


def test_an_unknown_preset_suggests_the_nearest():
    with pytest.raises(errors.ConfigError):
        models.preset("tinybert_4l_312")


@pytest.mark.parametrize(
    ("config", "change", "message"),
    [
        (
            BERT,
            {"hidden_size": 18},
            r"multiple of num_heads \(4\), received 18",
        ),
        (BERT, {"family": "berd"}, "family: .*Did you mean 'bert'"),
        (
            BERT,
            {"hidden_act": "swish"},
            "hidden_act: .*gelu_tanh.* received 'swish'",
        ),
        (BERT, {"head_size": 0}, "head_size: expected an integer of at least 1, or None"),
        (BERT, {"num_layers": 0}, "num_layers: expected an integer of at least 1, received 0"),
        (BERT, {"num_heads": 0}, "num_heads: expected an integer of at least 1"),
        (BERT, {"vocab_size": 30522.0}, "vocab_size: expected an integer"),
        (BERT, {"type_vocab_size": -1}, "type_vocab_size: expected an integer of at least 0"),
        (BERT, {"pad_token_id": 30522}, r"pad_token_id: expected an id below vocab_size \(30522\)"),
        (BERT, {"dropout": 1.0}, r"dropout: expected a rate in \[0, 1\), received 1.0"),
        (BERT, {"classifier_dropout": -0.1}, "classifier_dropout: expected a rate"),
        (BERT, {"layer_norm_eps": 0.0}, "layer_norm_eps: expected a number"),
        (BERT, {"family": "distilbert", "type_vocab_size": 0}, "pooler: expected False"),
        (BERT, {"family": "distilbert", "pooler": False}, "type_vocab_size: expected 0"),
        (BERT, {"hidden_sise": 3}, "Did you mean 'hidden_size'"),
        (
            MOBILEBERT,
            {"bottleneck_size": 9},
            r"bottleneck_size: .*of num_heads \(2\)",
        ),
        (
            MOBILEBERT,
            {"embedding_size": 0},
            "embedding_size: expected an integer of at least 1",
        ),
        (
            MOBILEBERT,
            {"num_feed_forward": 1.5},
            "num_feed_forward: expected an integer",
        ),
        (MOBILEBERT, {"normalization": "nonorm"}, "normalization: .*Did you mean 'no_norm'"),
        (
            MOBILEBERT,
            {"bottleneck_attention": True},
            "shared_key_query: expected False",
        ),
        (MOBILEBERT, {"family": "bert"}, "family: expected 'mobilebert' for a MobileBertConfig"),
        (MOBILEBERT, {"num_layers": 0}, "num_layers: expected an integer of at least 1"),
        (MOBILEBERT, {"bottleneck": 3}, "Did you mean 'bottleneck_"),
        (BILSTM, {"hidden_size": 0}, "hidden_size: expected an integer of at least 1"),
        (BILSTM, {"embedding_size": 2.5}, "embedding_size: expected an integer"),
        (BILSTM, {"pair_encoding": "siamesse"}, "Did you mean 'siamese'"),
        (BILSTM, {"dropout": 1.0}, r"dropout: expected a rate in \[0, 1\)"),
        (BILSTM, {"pad_token_id": -1}, "pad_token_id"),
        (BILSTM, {"hiden_size": 3}, "Did you mean 'hidden_size'"),
        (STATIC, {"dense_size": -1}, "dense_size: expected an integer of at least 0"),
        (STATIC, {"embedding_size": 0}, "embedding_size: expected an integer of at least 1"),
        (STATIC, {"hidden_size": 3}, "static student config"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(config, change, message):
    with pytest.raises(errors.ConfigError, match=message):
        config.replace(**change)


def test_pruned_heads_have_an_attention_width_of_their_own():
    assert (BERT.head_size, BERT.attention_width) == (None, 16)
    pruned = BERT.replace(num_heads=3, head_size=4)
    assert (pruned.head_size, pruned.attention_width) == (4, 12)
    assert models.flops(BERT, 8) - models.flops(pruned, 8) == 2 * (
        2 * 8 * 4 * 16 * (16 - 12) + 2 * 2 * 8**2 * (16 - 12)
    )


def test_a_head_size_that_says_nothing_new_is_none():
    assert BERT.replace(head_size=4) == BERT
    mobile = models.preset("mobilebert")
    with pytest.raises(errors.ConfigError, match="head_size: expected None"):
        mobile.replace(head_size=16)


def test_all_faults_are_reported_at_once():
    with pytest.raises(errors.ConfigError) as caught:
        models.EncoderConfig(**{**SHAPE, "num_layers": 0, "dropout": 2.0, "hidden_act": "x"})
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == [
        "hidden_act",
        "num_layers",
        "dropout",
    ]
