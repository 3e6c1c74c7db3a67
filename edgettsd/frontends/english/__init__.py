"""English text front end of the built-in voice: words, phones, lengths, and one text token a frame."""
