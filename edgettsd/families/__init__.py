"""Model families: what is true of one kind of model only, one folder each."""
