"""Writes tiny .tflite files for the tests: ``python make_models.py FOLDER``.

It runs in a process of its own where nothing else needs TensorFlow: the tests of a package that
must not import it should not import it either. The files are bags of words with one signature per
length; `slow.tflite` does some 200 times the work of `fast.tflite`, `foreign.tflite` is the fast
one as others name it. The .json beside each holds what TensorFlow makes of one example without
padding.
"""

import json
import pathlib
import sys

import tensorflow as tf

VOCAB_SIZE, LENGTHS, LABELS = 90, (8, 16), 3


class BagOfWords(tf.Module):
    """logits = W mean(real tokens of f(E[ids] + T[types]))."""

    def __init__(self, depth, width):
        super().__init__()
        random = tf.random.Generator.from_seed(0)
        self.words = tf.Variable(random.normal((VOCAB_SIZE, width)))
        self.types = tf.Variable(random.normal((2, width)))
        # Wider than the vocabulary has rows: whoever takes the largest table for it is wrong.
        self.up = tf.Variable(random.normal((depth, width, 4 * width)) / width)
        self.down = tf.Variable(random.normal((depth, 4 * width, width)) / width)
        self.classifier = tf.Variable(random.normal((width, LABELS)))

    def __call__(self, input_ids, attention_mask, token_type_ids):
        x = tf.gather(self.types, token_type_ids)  # first: it is not the table of the words
        x += tf.gather(self.words, input_ids)
        for up, down in zip(tf.unstack(self.up), tf.unstack(self.down), strict=True):
            x += tf.matmul(tf.nn.relu(tf.matmul(x, up)), down)  # (1, tokens, width)
        mask = tf.cast(attention_mask, tf.float32)[:, :, None]
        pooled = tf.reduce_sum(x * mask, axis=1) / tf.reduce_sum(mask, axis=1)
        return {"logits": tf.matmul(pooled, self.classifier)}


def write(path, depth, width):
    """Converts one model with a signature per length."""
    module = BagOfWords(depth, width)

    def signature(length):
        def call(input_ids, attention_mask, token_type_ids):
            return module(input_ids, attention_mask, token_type_ids)

        names = ("input_ids", "attention_mask", "token_type_ids")
        specs = {name: tf.TensorSpec((1, length), tf.int32, name) for name in names}
        return tf.function(call).get_concrete_function(**specs)

    ids, types = [2, 9, 17, 80, 3], [0, 0, 1, 1, 1]
    logits = module(*(tf.constant([row]) for row in (ids, [1] * len(ids), types)))["logits"]
    reference = {"input_ids": ids, "token_type_ids": types, "logits": logits[0].numpy().tolist()}
    path.with_suffix(".json").write_text(json.dumps(reference))
    folder = path.with_suffix("")
    tf.saved_model.save(module, folder, signatures={f"len{n}": signature(n) for n in LENGTHS})
    path.write_bytes(tf.lite.TFLiteConverter.from_saved_model(str(folder)).convert())


def write_foreign(path):
    """Converts the fast model as litert-torch does: args_0, ..., and a batch that is not known."""
    module = BagOfWords(1, 32)
    specs = [tf.TensorSpec((None, LENGTHS[0]), tf.int32, name=f"args_{i}") for i in range(3)]

    def call(args_0, args_1, args_2):
        return {"output_0": module(args_0, args_1, args_2)["logits"]}

    function = tf.function(call, input_signature=specs).get_concrete_function()
    tf.saved_model.save(module, path.with_suffix(""), signatures={"serving_default": function})
    path.write_bytes(tf.lite.TFLiteConverter.from_saved_model(str(path.with_suffix(""))).convert())


def write_all(folder):
    write(folder / "fast.tflite", depth=1, width=32)
    write(folder / "slow.tflite", depth=4, width=256)
    write_foreign(folder / "foreign.tflite")


if __name__ == "__main__":
    write_all(pathlib.Path(sys.argv[1]))
