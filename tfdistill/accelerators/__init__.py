"""Compiles model files for GPUs and NPUs on this host, and compares their answers with the CPU's.

No phone is needed, and no time is measured: what is shown is that a file compiles, how much of it
the accelerator takes over, and that the answers are right.
"""

from __future__ import annotations
