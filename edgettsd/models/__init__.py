"""Models: the bundle on disk, its manifest and the model families."""
