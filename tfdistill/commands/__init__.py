"""The commands, each importing what it needs when it is called."""
