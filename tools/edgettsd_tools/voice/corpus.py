"""The sentences to train on: WordNet's usage examples and templates of what devices say.

Only sentences whose every word is in the pronouncing dictionary are taken, so that what the teacher says is
known phone by phone. The split into training and held-out sentences is by a hash of the text, so it never
changes.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator
from pathlib import Path

WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_EXAMPLE = re.compile(r'"([^"]+)"')
_ALLOWED = re.compile(r"[A-Za-z' ,.;:?!-]+")
WORDNET = Path("/usr/share/wordnet")
HELD_OUT = 40  # one sentence in so many

ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
).split()
TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()
MONTHS = ("January February March April May June July August September October November December").split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
).split()
LETTERS = (
    "ay bee see dee ee eff gee aitch eye jay kay ell em en oh pee cue are ess tee you vee ex why"
).split()
ROOMS = "kitchen,bedroom,bathroom,living room,hallway,garage,garden,office,basement,attic".split(",")
THINGS = (
    "door,window,light,heater,kettle,oven,washing machine,camera,alarm,battery,printer,sensor,pump,fan,radio"
).split(",")
STATES = (
    "ready,open,closed,on,off,low,empty,full,locked,offline,connected,too hot,finished,running,paused"
).split(",")
WEATHER = "sunny,cloudy,rainy,windy,foggy,snowy,cold,warm,clear,stormy".split(",")


def number(n: int) -> str:
    """A whole number below a million in words."""
    if n < 20:
        return ONES[n]
    if n < 100:
        return TENS[n // 10] + ("" if n % 10 == 0 else " " + ONES[n % 10])
    if n < 1000:
        return ONES[n // 100] + " hundred" + ("" if n % 100 == 0 else " " + number(n % 100))
    return number(n // 1000) + " thousand" + ("" if n % 1000 == 0 else " " + number(n % 1000))


def wordnet_examples(folder: Path = WORDNET) -> Iterator[str]:
    """Usage examples of the WordNet database, each once, in file order."""
    seen: set[str] = set()
    for name in ("data.noun", "data.verb", "data.adj", "data.adv"):
        for line in (folder / name).read_text(encoding="latin-1").splitlines():
            for example in _EXAMPLE.findall(line):
                text = " ".join(example.split())
                if text not in seen and _ALLOWED.fullmatch(text):
                    seen.add(text)
                    yield text


def device_sentences(rng: random.Random, count: int) -> Iterator[str]:
    """What a talking device says: times, dates, numbers, weather, states, prompts, single words."""
    pick = rng.choice

    def time() -> str:
        hour, minute = number(rng.randrange(1, 13)), rng.randrange(0, 60)
        tail = pick(("o'clock", "")) if minute == 0 else ("oh " if minute < 10 else "") + number(minute)
        return f"{hour} {tail} {pick(('in the morning', 'in the afternoon', 'in the evening', ''))}"

    def date() -> str:
        return f"{pick(DAYS)}, {pick(MONTHS)} {pick(ORDINALS)}"

    makers = (
        lambda: f"It is {time()}.",
        lambda: f"Today is {date()}.",
        lambda: f"The {pick(THINGS)} in the {pick(ROOMS)} is {pick(STATES)}.",
        lambda: f"The {pick(THINGS)} is {pick(STATES)}, and the {pick(THINGS)} is {pick(STATES)}.",
        lambda: f"It will be {pick(WEATHER)} and {pick(WEATHER)} on {pick(DAYS)}.",
        lambda: f"The temperature is {number(rng.randrange(0, 110))} degrees.",
        lambda: f"{number(rng.randrange(0, 100))} percent.",
        lambda: f"You have {number(rng.randrange(2, 60))} new messages.",
        lambda: (
            f"Set a timer for {number(rng.randrange(2, 60))} minutes "
            f"and {number(rng.randrange(2, 60))} seconds."
        ),
        lambda: (
            f"The total is {number(rng.randrange(1, 2000))} dollars "
            f"and {number(rng.randrange(2, 100))} cents."
        ),
        lambda: f"Turn {pick(('left', 'right'))} in {number(rng.randrange(1, 10) * 100)} feet.",
        lambda: f"Your code is {', '.join(ONES[rng.randrange(10)] for _ in range(rng.randrange(3, 7)))}.",
        lambda: f"{' '.join(ONES[rng.randrange(10)] for _ in range(rng.randrange(2, 5)))}.",
        lambda: f"{', '.join(pick(LETTERS) for _ in range(rng.randrange(1, 5)))}.",
        lambda: f"{number(rng.randrange(0, 1_000_000))}.",
        lambda: (
            f"Nineteen {pick(TENS[2:])} {pick(ONES[1:10])}, or twenty {pick(TENS[1:4])} {pick(ONES[1:10])}."
        ),
        lambda: (
            f"{pick(('Please close', 'Could you open', 'Do not touch', 'Have you checked'))}"
            f" the {pick(THINGS)}" + pick((".", "?", "!"))
        ),
        lambda: (
            f"{pick(('Good morning', 'Good evening', 'Welcome home', 'Warning', 'Attention', 'Sorry'))}"
            + f"{pick(('.', '!'))} The {pick(THINGS)} is {pick(STATES)}."
        ),
        lambda: f"{pick(THINGS)}.",
        lambda: (
            f"{pick(('yes', 'no', 'okay', 'stop', 'ready', 'done', 'hello', 'goodbye', 'error', 'help'))}."
        ),
    )
    for n in range(count):
        text = " ".join(makers[n % len(makers)]().split()).replace(" .", ".")
        yield text[0].upper() + text[1:]


def held_out(text: str) -> bool:
    """Whether a sentence is kept for evaluation."""
    return hashlib.sha256(text.encode()).digest()[0] % HELD_OUT == 0


def sentences(lexicon: dict[str, list[str]], seed: int = 1, devices: int = 4000) -> list[str]:
    """All usable sentences in a fixed random order."""
    rng = random.Random(seed)
    taken = [*wordnet_examples(), *dict.fromkeys(device_sentences(rng, devices))]
    usable = [
        text
        for text in taken
        if 1 <= len(words := WORD.findall(text.lower().replace("-", " "))) <= 22
        and all(word in lexicon for word in words)
    ]
    rng.shuffle(usable)
    return usable
