"""Checkpoints of Hugging Face and of the Model Garden <-> our models, both directions.

To find a checkpoint and read its config.json needs no TensorFlow.
"""

from typing import TYPE_CHECKING

from tfdistill.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from tfdistill.weights.bilstm import load_bilstm, save_bilstm
    from tfdistill.weights.checkpoint import (
        Checkpoint,
        existing_tokenizer,
        hub_commit,
        open_checkpoint,
    )
    from tfdistill.weights.filling import LoadReport
    from tfdistill.weights.folders import DESCRIPTION
    from tfdistill.weights.garden import load_garden, load_garden_masked_lm
    from tfdistill.weights.head_checks import has_head, other_head
    from tfdistill.weights.load import (
        LoadedModel,
        load_classifier,
        load_embedder,
        load_encoder,
        load_masked_lm,
        load_model,
        read_config,
        sentence_head,
        sentence_prompt,
    )
    from tfdistill.weights.save import save_hf
    from tfdistill.weights.sentence_modules import has_modules

__all__ = [
    "DESCRIPTION",
    "Checkpoint",
    "LoadReport",
    "LoadedModel",
    "existing_tokenizer",
    "has_head",
    "has_modules",
    "hub_commit",
    "load_bilstm",
    "load_classifier",
    "load_embedder",
    "load_encoder",
    "load_garden",
    "load_garden_masked_lm",
    "load_masked_lm",
    "load_model",
    "open_checkpoint",
    "other_head",
    "read_config",
    "save_bilstm",
    "save_hf",
    "sentence_head",
    "sentence_prompt",
]

__getattr__, __dir__ = lazy_exports(__name__)
