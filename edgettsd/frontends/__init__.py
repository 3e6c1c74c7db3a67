"""Text front ends that are more than a tokenizer; a model family imports the one that its bundle names."""
