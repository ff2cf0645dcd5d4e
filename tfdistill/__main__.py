"""``python -m tfdistill``: the command line."""

import sys

from tfdistill.cli import main

sys.exit(main())
