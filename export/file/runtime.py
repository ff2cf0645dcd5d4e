"""An exported file in LiteRT, fed by the names of its signatures."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from ai_edge_litert import interpreter as litert

from tfdistill import errors, files
from tfdistill.tasks.encoded import EncodedExamples, pad
from tfdistill.tflite import word_rows

from ..model import inputs, signature
from ..model.heads import SCORES, head_of_file

_INPUTS = ("input_ids", word_rows.INPUT, "attention_mask", "token_type_ids")


class Interpreter(Protocol):
    """The part of LiteRT's interpreter that answers need."""

    def get_signature_list(self) -> dict[str, Any]:
        """Returns the names of inputs and outputs by signature."""
        ...

    def get_signature_runner(self, signature_key: str, /) -> Any:
        """Returns what runs a signature on named arrays."""
        ...


class TfliteModel:
    """A file that `to_tflite` wrote, ready to run.

    Inputs and outputs are bound by name, never by position: converters reorder them freely.

    Attributes:
      lengths: Sequence lengths of the signatures, ascending.
      inputs: Names of the inputs.
      outputs: Names of the outputs: one, or "start_logits" and "end_logits".
      head: What the file answers for.
    """

    def __init__(
        self,
        path: files.Path,
        threads: int = 1,
        *,
        interpreter: Interpreter | None = None,
        rows: inputs.Rows | None = None,
    ) -> None:
        """Opens the file in this process, which is for files that it has just made.

        Args:
          path: The .tflite file.
          threads: Threads of the interpreter.
          interpreter: What has opened the file in another process.
          rows: Looks up the rows of words of a file that takes these instead of ids.

        Raises:
          ExportError: If it cannot be opened, has no signature called len<length>, or one with
            other inputs or outputs than `to_tflite` gives it.
        """
        path = pathlib.Path(path)
        try:
            self._interpreter: Interpreter = interpreter or litert.Interpreter(
                str(path), num_threads=threads
            )
        except (ValueError, RuntimeError, OSError) as error:
            raise errors.ExportError(
                f"model file {path}",
                "a file that LiteRT opens",
                str(error).strip().rstrip("."),
                "It is no TFLite file, or a damaged one: copy or export it again.",
            ) from error
        signatures = self._interpreter.get_signature_list()
        self.lengths = tuple(
            sorted(
                int(name.removeprefix(signature.PREFIX))
                for name in signatures
                if re.fullmatch(rf"{signature.PREFIX}\d+", name)
            )
        )
        if not self.lengths:
            raise errors.ExportError(
                f"signatures of {path.name}",
                "len32 or alike, one for each sequence length",
                sorted(signatures) or "none",
                "Export the model with export.to_tflite.",
            )
        first = signatures[signature.signature_name(self.lengths[0])]
        self.inputs = tuple(sorted(first["inputs"]))
        try:
            self._runners = {
                length: self._interpreter.get_signature_runner(signature.signature_name(length))
                for length in self.lengths
            }
        except (ValueError, RuntimeError) as error:
            raise errors.ExportError(
                f"model file {path}", "a file that LiteRT runs", error, "Export it again."
            ) from error
        details = self._runners[self.lengths[0]].get_output_details()
        shapes = {name: tuple(tensor["shape"]) for name, tensor in details.items()}
        head = head_of_file(shapes)
        self._rows = rows
        if (word_rows.INPUT in self.inputs) != (rows is not None):
            raise errors.ExportError(
                f"inputs of {path.name}",
                "ids, or rows of words and their table",
                f"{', '.join(self.inputs)} and {'no' if rows is None else 'a'} table",
                "model.json beside the file names its table.",
            )
        words = "input_ids" if rows is None else word_rows.INPUT
        if head is None or not {words} <= set(self.inputs) <= set(_INPUTS):
            raise errors.ExportError(
                f"signature {signature.signature_name(self.lengths[0])} of {path.name}",
                f"inputs of {', '.join(_INPUTS)}, and logits",
                f"inputs {', '.join(self.inputs)} and outputs {shapes}",
                "It is another program's file. Export the model with export.to_tflite.",
            )
        self.head = head
        self.outputs = head.output_names(softmax=SCORES in shapes)

    def length_for(self, num_tokens: int) -> int:
        """Returns the shortest length that holds `num_tokens` tokens.

        Raises:
          ShapeError: If none does.
        """
        for length in self.lengths:
            if num_tokens <= length:
                return length
        raise errors.ShapeError(
            "input_ids",
            f"at most {self.lengths[-1]} tokens, the longest signature",
            f"{num_tokens} tokens",
            "Truncate the text, or export with a longer length.",
        )

    def predict(
        self,
        input_ids: Sequence[int] | np.ndarray,
        token_type_ids: Sequence[int] | np.ndarray | None = None,
        *,
        length: int | None = None,
        pad_id: int = 0,
    ) -> np.ndarray:
        """Answers one example, without padding, through the shortest signature that holds it.

        Args:
          input_ids: Token ids with [CLS] and [SEP].
          token_type_ids: A type for each id; None for zeros. Ignored by a file without this input.
          length: The length to use instead of the shortest that fits.
          pad_id: The id that fills the signature up; masked, so it does not change the answer.

        Returns:
          float32 (num_labels,): logits, or probabilities where softmax was exported. Of a file
          that answers for tokens (tokens, num_labels), of one that answers with a span (tokens, 2):
          the logits of being its start and of being its end.

        Raises:
          ShapeError: If the example does not fit.
          ExportError: If the file cannot be run on it.
        """
        ids = np.asarray(input_ids, np.int32)
        if ids.ndim != 1 or not len(ids):
            raise errors.ShapeError("input_ids", "a list of at least one id", f"shape {ids.shape}")
        fitting = self.length_for(len(ids))
        chosen = fitting if length is None else length
        if chosen not in self._runners or chosen < fitting:
            raise errors.ShapeError(
                "length", f"one of {self.lengths} that holds {len(ids)} tokens", chosen
            )
        types = np.zeros_like(ids) if token_type_ids is None else np.asarray(token_type_ids)
        if types.shape != ids.shape:
            raise errors.ShapeError("token_type_ids", f"shape {ids.shape}", types.shape)
        example = EncodedExamples(ids, np.array([0, len(ids)]), types, pad_id=pad_id)
        features = pad(example, [0], chosen)
        try:
            given = self._runners[chosen](**inputs.for_signature(features, self.inputs, self._rows))
        except errors.TfdistillError:  # of the worker of an isolated interpreter
            raise
        except (ValueError, RuntimeError) as error:  # such as an id outside the embedding
            raise errors.ExportError(
                f"signature {signature.signature_name(chosen)}",
                "an answer",
                error,
                "Check that the text was tokenized with the vocabulary of the model.",
            ) from error
        return self.head.rows_of_file([given[name] for name in self.outputs], len(ids))
