"""Tools that run on a workstation: make checkpoints, convert them, compare and measure."""
