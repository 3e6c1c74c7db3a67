SCHEDULES: tuple[str, ...]

def start_slower(frames: int, rate: float, slower: float) -> int:
    """Frames to have ready before an utterance of `frames` starts, 0 where the CPUs are not slower.

    The CPUs are `slower` times as slow as when `rate` (time of a frame over its duration) was measured.
    """
