# Only its name is needed.
