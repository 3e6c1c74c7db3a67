"""From phones with lengths to the text stream of the built-in voice: one token a frame.

A frame of 80 ms holds two slots of 40 ms, and a slot holds one phone. The token of a frame is the pair of its
phones, so the text stream says what is heard when, and the model need not learn to align.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from edgettsd.frontends.english.phones import PAUSE, PHONES

SLOT_SECONDS = 0.04
# A shorter gap between words gets no slot, and its neighbours share its time. Longer gaps are kept, because
# without those of 30 to 65 ms the teacher itself has a word error rate of 0.17 instead of 0.11.
MIN_GAP_SECONDS = 0.03
# Longer phones are cut to this, because the text stream would become absurdly long.
MAX_PHONE_SECONDS = 10.0

SOUNDS = tuple(phone for phone in PHONES if not phone.endswith("2"))
"""What a slot can hold; secondary stress sounds as the primary one does."""
SOUND_IDS = {phone: SOUNDS.index(phone.replace("2", "1")) for phone in PHONES}
"""The slot id of each phone."""

PAIRS = len(SOUNDS) ** 2
SPECIALS = ("im_start", "im_end", "tts_pad", "tts_bos", "tts_eos", "assistant", "newline")
SPECIAL_IDS = {name: PAIRS + index for index, name in enumerate(SPECIALS)}
"""Ids of the tokens that are not pairs; they mean what they mean in the official prompt."""
VOCAB = PAIRS + len(SPECIALS)
"""Number of text token ids."""


def slot_counts(phones: Sequence[str], seconds: Sequence[float]) -> list[int]:
    """How many 40 ms slots each phone of a sentence takes.

    `phones` are names of PHONES, `seconds` their lengths. Gaps (SP) inside the sentence below 30 ms take
    none: they are halved between their neighbours first. Then the boundaries move to the slot grid, with the
    least squared shift, such that every other phone has a slot or more; the length of the whole is off by
    half a slot at most, unless there are more phones than slots: then each has exactly one. Raises ValueError
    for an unknown phone, for lists of different lengths, and for a length that is not within 0 to 10 s.
    """
    if len(phones) != len(seconds):
        raise ValueError(f"{len(phones)} phones but {len(seconds)} lengths; one length a phone is needed")
    for phone, length in zip(phones, seconds, strict=True):
        if phone not in SOUND_IDS:
            raise ValueError(f"phone is {phone!r}; allowed are {', '.join(PHONES)}")
        if not 0.0 <= length <= MAX_PHONE_SECONDS:
            raise ValueError(f"length of {phone} is {length}; allowed: 0 to {MAX_PHONE_SECONDS} s")
    places, lengths = _share_gaps(phones, [float(s) for s in seconds])
    counts = [0] * len(phones)
    before = 0
    for place, end in zip(places, _grid(lengths), strict=True):
        counts[place] = end - before
        before = end
    return counts


def slots(phones: Sequence[str], seconds: Sequence[float]) -> list[int]:
    """The sound (index of SOUNDS) in every 40 ms slot of a sentence; see `slot_counts`."""
    counts = slot_counts(phones, seconds)
    return [SOUND_IDS[p] for p, count in zip(phones, counts, strict=True) for _ in range(count)]


def pair_ids(slot_ids: Sequence[int]) -> list[int]:
    """Token ids, one a frame: first slot's sound * len(SOUNDS) + second slot's.

    An odd number of slots is padded with SP. Raises ValueError for what is no sound's index.
    """
    for sound in slot_ids:
        if not 0 <= sound < len(SOUNDS):
            raise ValueError(f"sound is {sound}; allowed: 0 to {len(SOUNDS) - 1}")
    padded = [*slot_ids, SOUND_IDS[PAUSE]] if len(slot_ids) % 2 else slot_ids
    return [padded[i] * len(SOUNDS) + padded[i + 1] for i in range(0, len(padded), 2)]


def pair_phones(token: int) -> tuple[str, str]:
    """The two sounds of a pair token. Raises ValueError when `token` is none."""
    if not 0 <= token < PAIRS:
        raise ValueError(f"pair token is {token}; allowed: 0 to {PAIRS - 1}")
    return SOUNDS[token // len(SOUNDS)], SOUNDS[token % len(SOUNDS)]


def _share_gaps(phones: Sequence[str], lengths: list[float]) -> tuple[list[int], list[float]]:
    """Indices and lengths without the short gaps that lie between two phones other than SP; the sum of the
    lengths stays."""
    places: list[int] = []
    kept: list[float] = []
    carried = 0.0
    last = len(phones) - 1
    for index, (phone, length) in enumerate(zip(phones, lengths, strict=True)):
        inside = 0 < index < last and phones[index - 1] != PAUSE and phones[index + 1] != PAUSE
        if phone == PAUSE and inside and length < MIN_GAP_SECONDS:
            kept[-1] += length / 2
            carried = length / 2
            continue
        places.append(index)
        kept.append(length + carried)
        carried = 0.0
    return places, kept


def _grid(lengths: Sequence[float]) -> list[int]:
    """Where each phone ends, in slots: strictly ascending, nearest to the true ends in least squares.

    Ends e with e[i] >= e[i - 1] + 1 are i plus a non-descending sequence, so this is an isotonic regression,
    clipped to the room there is. The regression's value is rounded, which keeps its order.
    """
    count = len(lengths)
    if not count:
        return []
    ends: list[float] = []
    total = 0.0
    for length in lengths:
        total += length / SLOT_SECONDS
        ends.append(total)
    room = max(0, _round(total) - count)
    blocks: list[tuple[float, int]] = []  # sum and number of pooled values
    for index, end in enumerate(ends[:-1]):
        value, size = end - (index + 1), 1
        while blocks and blocks[-1][0] * size >= value * blocks[-1][1]:
            before = blocks.pop()
            value, size = value + before[0], size + before[1]
        blocks.append((value, size))
    shifts = [min(max(_round(value / size), 0), room) for value, size in blocks for _ in range(size)]
    return [index + 1 + shift for index, shift in enumerate([*shifts, room])]


def _round(value: float) -> int:
    """Round to the nearest whole number, halves up: unlike round(), the same for odd and even."""
    return math.floor(value + 0.5)
