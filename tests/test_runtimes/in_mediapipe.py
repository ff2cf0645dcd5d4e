"""MediaPipe's text classifier: {"model", "texts"} on stdin -> label: score of each on stdout.

Run by the Python of .runtimes/mediapipe, which has nothing of this project.
"""

import json
import sys

from mediapipe.tasks import python as tasks
from mediapipe.tasks.python import text

job = json.load(sys.stdin)
options = text.TextClassifierOptions(tasks.BaseOptions(model_asset_path=job["model"]))
with text.TextClassifier.create_from_options(options) as classifier:
    answers = [
        {c.category_name: c.score for c in classifier.classify(line).classifications[0].categories}
        for line in job["texts"]
    ]
print(json.dumps(answers))
