"""Several number formats tried on one model: `auto` chooses, `sweep` lists."""
