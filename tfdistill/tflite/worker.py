"""The process of a `TfliteModel` of its own: ``python -m tfdistill.tflite.worker``."""

from __future__ import annotations

import sys

from tfdistill.tflite import model, serving

if __name__ == "__main__":
    sys.exit(serving.serve(model.serve_model))
