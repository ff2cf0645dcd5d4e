"""MediaPipe's text classifier: {"model", "texts"} on stdin -> label: score of each on stdout.

With "embed" its text embedder: the vector of each text.

Run by the Python of .runtimes/mediapipe, which has nothing of this project.
"""

import json
import sys

from mediapipe.tasks import python as tasks
from mediapipe.tasks.python import text

job = json.load(sys.stdin)
base = tasks.BaseOptions(model_asset_path=job["model"])
if job["embed"]:
    with text.TextEmbedder.create_from_options(text.TextEmbedderOptions(base)) as embedder:
        answers = [embedder.embed(line).embeddings[0].embedding.tolist() for line in job["texts"]]
else:
    with text.TextClassifier.create_from_options(text.TextClassifierOptions(base)) as classifier:
        results = [classifier.classify(line).classifications[0] for line in job["texts"]]
        answers = [{c.category_name: c.score for c in one.categories} for one in results]
print(json.dumps(answers))
