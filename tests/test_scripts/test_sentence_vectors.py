"""The script's vectors of sentence encoders: those of each text alone, by toy models of the family.

The classes of transformers in TensorFlow stand in for those in PyTorch, which is no dependency.
"""

import importlib
import json
import types

import numpy as np
import pytest
import safetensors.numpy
import transformers
from test_scripts.test_answers_from_transformers import Inputs, Numbers, stand_in
from test_weights.references import save_random
from test_weights.test_roberta import tokenizer_of

from tfdistill import tasks
from tfdistill.data import soft_labels

TASK = tasks.TaskSpec("near", "one", "score", "two", kind="embedding")
TEXTS = ("good film", "a bad story, it's a film", "Good", "long good film " * 5)
SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
POOLING = "1_Pooling/config.json"
DENSE = {"linear.weight": np.ones((5, 8), np.float32), "linear.bias": np.zeros(5, np.float32)}


def save_modules(folder, *kinds, pooling, longest=12):
    """Writes what follows an encoder as sentence-transformers does, of version 2 or 5."""
    paths = ["", *(f"{number}_{kind}" for number, kind in enumerate(kinds, start=1))]
    types_of = [f"sentence_transformers.models.{kind}" for kind in ("Transformer", *kinds)]
    modules = [{"path": path, "type": kind} for path, kind in zip(paths, types_of, strict=True)]
    (folder / "modules.json").write_text(json.dumps(modules))
    for path in paths[1:]:
        (folder / path).mkdir()
    (folder / POOLING).write_text(json.dumps(pooling))
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": longest}))


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    """Family -> tokenizer, model and folder: of random weights, as transformers saves them."""
    by_family = {}
    for family in ("MPNet", "XLMRoberta"):
        folder = tmp_path_factory.mktemp(family)
        if family == "MPNet":
            words = [
                "<s>",
                "<pad>",
                "</s>",
                "[UNK]",
                "<mask>",
                *"good film a bad story , it ' s".split(),
            ]
            (folder / "vocab.txt").write_text("\n".join(words))
            tokenizer = transformers.MPNetTokenizerFast(str(folder / "vocab.txt"))
        else:
            tokenizer = tokenizer_of("Unigram", folder)
        config = getattr(transformers, f"{family}Config")(
            **{"vocab_size": len(tokenizer) + 3, "max_position_embeddings": 20, **SIZES},
            **{"intermediate_size": 8, "layer_norm_eps": 1e-3},
        )
        model = getattr(transformers, f"TF{family}Model")(config)
        save_random(model, tokenizer, folder)
        by_family[family] = tokenizer, model, folder
    mean = {"word_embedding_dimension": 8, "pooling_mode_mean_tokens": True}
    save_modules(by_family["MPNet"][2], "Pooling", "Normalize", pooling=mean)
    folder = by_family["XLMRoberta"][2]
    save_modules(folder, "Pooling", "Dense", pooling={"pooling_mode": ["max", "cls"]})
    kernel = np.random.default_rng(3).normal(size=(5, 16)).astype(np.float32)
    safetensors.numpy.save_file({"linear.weight": kernel}, folder / "2_Dense/model.safetensors")
    tanh = {"activation_function": "torch.nn.modules.activation.Tanh"}
    (folder / "2_Dense/config.json").write_text(json.dumps(tanh))
    return by_family


def alone(encoders, family, text):
    """The vector of a text that is read by itself, without padding."""
    tokenizer, model, folder = encoders[family]
    encoded = tokenizer([text], truncation=True, max_length=12, return_tensors="np")
    states = model(dict(encoded)).last_hidden_state.numpy()[0]  # (tokens, 8)
    if family == "MPNet":
        vector = states.mean(axis=0)
        return vector / np.linalg.norm(vector)
    kernel = safetensors.numpy.load_file(folder / "2_Dense/model.safetensors")["linear.weight"]
    return np.tanh(kernel @ np.concatenate([states.max(axis=0), states[0]]))


@pytest.fixture
def torch_of(encoders, monkeypatch):
    """Stands in for PyTorch: the encoder in TensorFlow, its arrays with what the script asks of."""

    def tokenizer_in(folder):
        (real,) = (part[0] for part in encoders.values() if str(part[2]) == folder)

        def call(texts, *, return_tensors, **options):
            assert return_tensors == "pt"
            arrays = real(texts, return_tensors="np", **options)
            return Inputs({name: Numbers(array) for name, array in arrays.items()})

        return call

    class Model:
        eval = to = lambda self, *_: self

        def __init__(self, folder):
            (self.real,) = (part[1] for part in encoders.values() if str(part[2]) == folder)

        def __call__(self, **inputs):
            arrays = {name: part.array.astype(np.int32) for name, part in inputs.items()}
            states = self.real(arrays).last_hidden_state
            return types.SimpleNamespace(last_hidden_state=Numbers(states.numpy()))

    stand_in(monkeypatch, AutoTokenizer=tokenizer_in, AutoModel=Model)


@pytest.mark.parametrize("family", ["MPNet", "XLMRoberta"])
def test_padded_texts_have_the_vectors_of_each_alone(family, script, encoders, torch_of, tmp_path):
    folder, out = encoders[family][2], tmp_path / "out.jsonl"
    (tmp_path / "a.tsv").write_text(f"one\ttwo\n{TEXTS[0]}\t{TEXTS[1]}\n{TEXTS[2]}\t{TEXTS[0]}\n")
    (tmp_path / "b.txt").write_text(TEXTS[3].strip() + "\n")
    command = [str(folder), "--kind", "embedding", "--out", str(out), "--text-column", "one"]
    command += ["--texts", str(tmp_path / "a.tsv"), str(tmp_path / "b.txt")]
    script.main([*command, "--pair-column", "two"])
    labels = soft_labels.read(out, TASK)
    assert len(labels.values) == 4  # each text once
    rows = labels.find([(text,) for text in TEXTS])
    expected = [alone(encoders, family, text) for text in TEXTS]
    # float32 sums; the padding, another pooling or 13 tokens show at 1e-2.
    np.testing.assert_allclose(labels.values[rows], expected, atol=2e-6)

    before = out.read_bytes()
    script.main([*command, "--pair-column", "two"])
    assert out.read_bytes() == before
    with pytest.raises(SystemExit, match=r'"prompt": "good ".*received those of .*"prompt": ""'):
        script.main([*command, "--pair-column", "two", "--prompt", "good "])
    out.unlink()
    script.main([*command, "--pair-column", "two", "--prompt", "good "])
    labels = soft_labels.read(out, TASK)
    expected = alone(encoders, family, f"good {TEXTS[0]}")
    np.testing.assert_allclose(labels.values[labels.find([TEXTS[:1]])], [expected], atol=2e-6)


def test_vectors_are_not_mixed_with_logits(script, encoders, torch_of, tmp_path):
    (tmp_path / "a.txt").write_text("x\n")
    out = tmp_path / "out.jsonl"
    out.write_text('{"text": "y", "logits.a": 1, "logits.b": 2}\n')
    command = [str(encoders["MPNet"][2]), "--texts", str(tmp_path / "a.txt"), "--out", str(out)]
    with pytest.raises(SystemExit, match=r"the labels \['vector'\], received \[\('a', 'b'\)\]"):
        script.main([*command, "--kind", "embedding"])
    with pytest.raises(SystemExit, match="--prompt: expected --kind embedding"):
        script.main([*command, "--prompt", "x"])


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "saved"
    folder.mkdir()
    save_modules(folder, "Pooling", "Dense", "Normalize", pooling={"pooling_mode": "cls"})
    (folder / "2_Dense/config.json").write_text(
        json.dumps({"activation_function": "torch.nn.modules.linear.Identity"})
    )
    safetensors.numpy.save_file(DENSE, folder / "2_Dense/model.safetensors")
    return folder


def written(path, **changes):
    values = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**values, **changes}))


def test_a_folder_says_length_case_and_prompt(script, folder):
    vectors = importlib.import_module("sentence_vectors")
    modules = vectors.read_modules(folder)
    assert (modules.poolings, modules.max_length, modules.prompt) == (("cls",), 12, "")
    assert modules.normalize and not modules.lower_case and len(modules.projections) == 1
    written(folder / "sentence_bert_config.json", max_seq_length=None, do_lower_case=True)
    written(folder / "config_sentence_transformers.json", prompts={"q": "ask: "})
    assert vectors.read_modules(folder)[4:] == (256, True, "")
    written(folder / "tokenizer_config.json", model_max_length=77)
    written(folder / "config_sentence_transformers.json", default_prompt_name="q")
    assert vectors.read_modules(folder)[4:] == (77, True, "ask: ")
    assert vectors.read_modules(folder, prompt="")[4:] == (77, True, "")
    written(folder / POOLING, include_prompt=False)
    with pytest.raises(SystemExit, match="expected include_prompt"):
        vectors.read_modules(folder)


SPOILT = {
    "none": (lambda f: (f / "modules.json").unlink(), r"modules.json: expected the JSON of a"),
    "other pooling": (lambda f: written(f / POOLING, pooling_mode="lasttoken"), "a pooling of"),
    "old pooling": (
        lambda f: (f / POOLING).write_text('{"pooling_mode_weightedmean_tokens": true}'),
        r"received \['pooling_mode_weightedmean_tokens'\]",
    ),
    "no pooling": (lambda f: (f / POOLING).write_text("{}"), "a pooling of"),
    "other activation": (
        lambda f: written(f / "2_Dense/config.json", activation_function="torch.nn.ReLU"),
        "with an activation of .*received ReLU",
    ),
    "other module": (
        lambda f: (f / "modules.json").write_text('[{"path": "", "type": "a.CNN"}]'),
        "received 'a.CNN'",
    ),
    "order": (
        lambda f: (f / "modules.json").write_text(
            '[{"path": "1_Pooling", "type": "a.Pooling"}, {"path": "", "type": "a.Transformer"}]'
        ),
        "received 'a.Transformer'",
    ),
    "a path outside": (
        lambda f: (f / "modules.json").write_text('[{"path": "../x", "type": "a.Transformer"}]'),
        r"expected folders in it, received '../x'",
    ),
    "no list": (lambda f: (f / "modules.json").write_text("[1]"), "expected a list of modules"),
}


@pytest.mark.parametrize("fault", SPOILT)
def test_what_would_give_other_vectors_is_refused(fault, script, folder):
    spoil, message = SPOILT[fault]
    spoil(folder)
    with pytest.raises(SystemExit, match=message):
        importlib.import_module("sentence_vectors").read_modules(folder)
