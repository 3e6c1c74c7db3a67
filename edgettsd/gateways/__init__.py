"""Doors to the daemon for clients of other kinds; each is a process of its own that speaks D-Bus to it."""
