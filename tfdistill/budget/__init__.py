"""The largest part of a teacher within a budget of latency and size.

Pure: `shapes` (what can be cut out of a teacher), `costs` (what a file of a shape does and stores).
With files and clocks: `measuring` (exports and measures files), `fitting` (the whole).
"""
