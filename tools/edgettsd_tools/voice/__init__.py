"""Training of the built-in English voice: corpus, teacher audio, codec, talker, export, evaluation."""
