"""An exported file in LiteRT, fed by the names of its signatures."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence

import numpy as np
from ai_edge_litert import interpreter as litert

from tfdistill import errors, files

from . import signature


class TfliteModel:
    """A file that `to_tflite` wrote, ready to run.

    Inputs are bound by name, never by position: converters reorder them freely.

    Attributes:
      lengths: Sequence lengths of the signatures, ascending.
      inputs: Names of the inputs.
      output: Name of the output.
    """

    def __init__(self, path: files.Path, threads: int = 1) -> None:
        """Opens the file.

        Args:
          path: The .tflite file.
          threads: Threads of the interpreter.

        Raises:
          ExportError: If it cannot be opened or has no signature called len<length>.
        """
        path = pathlib.Path(path)
        try:
            self._interpreter = litert.Interpreter(str(path), num_threads=threads)
        except (ValueError, RuntimeError, OSError) as error:
            raise errors.ExportError(
                errors.explain(f"model file {path}", "a file that LiteRT opens", error)
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
                errors.explain(
                    f"signatures of {path.name}",
                    "len32 or alike, one for each sequence length",
                    sorted(signatures) or "none",
                    "Export the model with export.to_tflite.",
                )
            )
        first = signatures[signature.signature_name(self.lengths[0])]
        self.inputs = tuple(sorted(first["inputs"]))
        self.output = first["outputs"][0]
        self._runners = {
            length: self._interpreter.get_signature_runner(signature.signature_name(length))
            for length in self.lengths
        }

    def length_for(self, num_tokens: int) -> int:
        """Returns the shortest length that holds `num_tokens` tokens.

        Raises:
          ShapeError: If none does.
        """
        for length in self.lengths:
            if num_tokens <= length:
                return length
        raise errors.ShapeError(
            errors.explain(
                "input_ids",
                f"at most {self.lengths[-1]} tokens, the longest signature",
                f"{num_tokens} tokens",
                "Truncate the text, or export with a longer length.",
            )
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
          float32 (num_labels,): logits, or probabilities where softmax was exported.

        Raises:
          ShapeError: If the example does not fit.
        """
        ids = np.asarray(input_ids, np.int32)
        if ids.ndim != 1 or not len(ids):
            raise errors.ShapeError(
                errors.explain("input_ids", "a list of at least one id", f"shape {ids.shape}")
            )
        fitting = self.length_for(len(ids))
        chosen = fitting if length is None else length
        if chosen not in self._runners or chosen < fitting:
            raise errors.ShapeError(
                errors.explain(
                    "length", f"one of {self.lengths} that holds {len(ids)} tokens", chosen
                )
            )
        types = np.zeros_like(ids) if token_type_ids is None else np.asarray(token_type_ids)
        if types.shape != ids.shape:
            raise errors.ShapeError(
                errors.explain("token_type_ids", f"shape {ids.shape}", types.shape)
            )
        features = {
            "input_ids": _padded(ids, chosen, pad_id),
            "attention_mask": _padded(np.ones_like(ids), chosen, 0),
            "token_type_ids": _padded(types, chosen, 0),
        }
        outputs = self._runners[chosen](**{name: features[name] for name in self.inputs})
        return outputs[self.output][0]


def _padded(values: np.ndarray, length: int, filler: int) -> np.ndarray:
    row = np.full((1, length), filler, np.int32)
    row[0, : len(values)] = values
    return row
