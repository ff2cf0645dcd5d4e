"""`papers_table.py`: sizes and latencies of the papers' models, next to what they published.

`published` holds the papers' figures, `exporting` makes the files, `making` measures them in turns,
`table` is the result (table.json), and `rendering` writes it as text, Markdown and CSV.
"""
