"""Reading and writing: paths, folders, locks, storage, bounded files and child processes."""
