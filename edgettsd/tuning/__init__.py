"""Trying out how the machine is best used: runs the engine, which knows nothing of it."""
