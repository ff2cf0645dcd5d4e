"""Changes to a saved Hugging Face folder, as other programs make them."""

import json

import safetensors.numpy


def edit(folder, change):
    """Rewrites the tensors of a checkpoint: `change` alters the dict, or returns another."""
    path = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    changed = change(tensors)
    tensors = changed if isinstance(changed, dict) else tensors
    safetensors.numpy.save_file(tensors, path, metadata={"format": "pt"})


ABSENT = object()  # of a key that goes


def edit_json(path, **changes):
    values = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: v for key, v in values.items() if v is not ABSENT}))


def edit_config(folder, **changes):
    edit_json(folder / "config.json", **changes)
