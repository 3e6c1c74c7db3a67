"""Numbers that count nothing: codes, PINs, zip codes, telephone and account numbers, and 42A as a name."""

from __future__ import annotations

import re

from edgettsd.frontends.english import numbers, tables
from edgettsd.frontends.english.phones import FUNCTION_WORDS
from edgettsd.frontends.english.ranges import to
from edgettsd.frontends.english.scan import Scan, letters
from edgettsd.frontends.english.units import END, joins, measured

_LOOK_BACK = 64

_PHONE = re.compile(
    rf"(?:\+?\d{{1,3}}[ .-])?(?:\(\d{{2,4}}\) ?|\d{{3,4}}[.-])\d{{3,4}}[.-]\d{{3,4}}{END}"
    rf"|\+\d{{1,3}}(?:[ .-]?\(?\d{{2,4}}\)?){{2,5}}{END}|\d{{3}}-\d{{4}}{END}"
    rf"|0\d{{3,4}} \d{{5,6}}{END}|0\d{{1,4}}(?: \d{{2,4}}){{2,4}}{END}"
)
_ROUND = re.compile(r"\d(?:00|50)-\d[05]00(?!\d)")
_GROUPS = re.compile(rf"\d+(?:\.\d+){{2,}}{END}")
# Cards have groups of four digits, American social security numbers 3, 2 and 4.
_CARD = re.compile(
    rf"\d{{4}}([ -])\d{{4}}(?:\1\d{{4}}){{1,3}}(?:\1\d{{1,3}})?{END}(?![.,]\d)"
    rf"|\d{{3}}-\d{{2}}-\d{{4}}{END}(?!-)"
)
_IBAN = re.compile(rf"[A-Z]{{2}}\d{{2}}(?: [A-Z0-9]{{4}}){{3,7}}(?: [A-Z0-9]{{1,4}})?{END}")
_POSTCODE = re.compile(rf"[A-Z]{{1,2}}\d[A-Z\d]? \d[ABD-HJLNP-UW-Z]{{2}}{END}(?<!GB)")
_DIGITS = re.compile(
    r"\d{2,32}(?:-\d{2,12}){0,4}(?:(?<=\b\d{3}) \d{3}\b|(?<=\b\d{4}) \d{4}\b){0,4}(?!\w|[.,:/]\d|\s?%)"
)
_MIXED = re.compile(
    r"(?=[A-Za-z-]{0,16}\d)(?=[\d-]{0,16}[A-Za-z])[A-Za-z0-9]{2,24}(?:-[A-Za-z0-9]{1,12}){0,4}(?!\w|[.:/@]\w)"
)
_ZIP_DIGITS = re.compile(r"\d{5}(?:-\d{4})?")
_AMOUNT_OR_SIZE = re.compile(r"\d+(?:x\d+|[xkKmM]|st|nd|rd|th|s)")
_NUMBER_AND_LETTERS = re.compile(r"\d+(?P<letters>[A-Za-z]+)")
_NEXT = re.compile(r" ([a-z]+)")

# Words that make the number behind them a code; searched in a short window, so the cost is bounded.
_KEYS = (
    r"post(?:al )?codes?|pin|pin code|otp|one[ -]time (?:code|password|passcode|pin)|pass(?: ?code|word)"
    r"|(?:verification|security|access|confirmation|activation|authori[sz]ation|unlock|door|gate|entry"
    r"|alarm|log-?in"
    r"|sign-in|booking|pairing|sort|area|backup|recovery|invite|invitation|promo|secret|reset|sms|2fa|mfa"
    r"|safe|lock"
    r"|swift|redemption|pickup|keypad|garage) code|cvv|cvc|ssn|iban|last (?:four|4)(?: digits)?"
    r"|(?:card|account|number|phone|line) ending(?: in| with)?|digits"
)
_ITEMS = (
    r"account|acct|order|ticket|tracking|confirmation|reference|ref|booking|reservation|case|claim|policy"
    r"|member(?:ship)?"
    r"|customer|client|employee|student|patient|user|badge|card|passport|serial|invoice|flight|routing"
    r"|registration"
    r"|docket|voucher|coupon|locker|phone|telephone|mobile|cell|fax|contact|emergency|hotline|helpline"
    r"|extension|part|sku"
    r"|licen[cs]e|plate|vin|pnr|device|product|transaction|batch|id"
)
_MEANS = r"(?: is| was|:| =)? ?[#\"']?$"
_KEYED = re.compile(rf"(?<![a-z])(?:{_KEYS})(?: (?:number|no\.?))?{_MEANS}")
_SURE = re.compile(
    rf"(?<![a-z])(?:(?:{_ITEMS}|your) (?:number|no\.?|id|code)|ids?|hotline|helpline|serial"
    rf"|(?<!country )(?<!dress )(?<!error )(?<!status )(?<!exit )(?<!response )(?<!return )(?<!result )"
    rf"(?<!source )"
    rf"(?<!of )code){_MEANS}|(?<![a-z])(?:{_ITEMS}) #$"
)
_ZIP = re.compile(rf"(?<![a-z])zip(?:[ -]?code)?s?{_MEANS}")
_BARE = re.compile(
    r""
    r"(?<![a-z])(?:account|acct\.?|order|ticket|tracking|confirmation|booking|reservation|reference|ref\.?|flight"
    r"|phone|telephone|tel\.?|mobile|cell|fax|ext\.?|extension|customer|invoice|badge|locker):? ?[#\"']?$"
)
_CALLED = re.compile(
    r"(?<![a-z])(?:(?:call|calls? to|dial|ring|phone|enter|text)"
    r"|(?:text|send|sms) ['\"]?[a-z]{1,12}['\"]? to|emergency(?: number| line| services)?(?: is| on| at|:)?)"
    r" (?:[\d-]{3,16}(?:, or |, and | or |, | and )){0,4}$"
)
_AMOUNT = re.compile(r"(?<![a-z])enter $")
_STATE = re.compile(
    r"(?P<state>A[KLRZ]|C[AOT]|D[CE]|FL|GA|HI|I[ADLN]|K[SY]|LA|M[ADEINOST]|N[CDEHJMVY]|O[HKR]|PA|RI|S[CD]"
    r"|T[NX]|UT"
    r"|V[AT]|W[AIVY]) (?P<zip>\d{5}(?:-\d{4})?)(?![\w-]|[.,]\d)"
)
# States whose letters are words or acronyms too: these want a comma before them.
_STATE_WORDS = frozenset("AL HI ID IN LA MA ME OH OK OR PA DE CO MI MO UT".split())
_AIRLINE = re.compile(r"(?<![A-Za-z])[Ff]lights? [A-Z]{2} $")
_YEARS = re.compile(r"1\d{3}-(?:1\d{3}|20\d\d)")
_EMERGENCY = re.compile(r"(?:911|999|112)(?= (?:call|caller|operator|dispatch|dispatcher|emergency)\b)")

# A number whose letters are no unit but belong to a name: bus 42A, flat 3B.
_ELECTRIC = "rail|supply|fuse|battery|adapter|power|charger|bulb|motor|output|input|regulator|load|logic|max"
_LETTERED = re.compile(rf"(?P<number>\d{{1,4}})-?(?P<letters>[A-Z]{{1,2}})(?!\w|\.\d)(?! (?:{_ELECTRIC})\b)")
_BETWEEN = frozenset(("and", "or", "to", ",", "through", "the"))
_SMALL = re.compile(r"(?P<number>\d{1,4})(?P<letters>[dgls])(?![\w/-])(?! [a-z])")
_STREET = re.compile(
    r"(?P<number>\d{1,5})-?(?P<letters>[A-Z])(?= (?:[A-Z][a-z]{1,20}\.? ){1,3}"
    r"(?:St|Street|Rd|Road|Ave|Avenue|Lane|Ln|Drive|Dr|Square|Sq|Way|Place|Pl|Court|Ct|Blvd|Boulevard"
    r"|Close|Terrace"
    r"|Gardens|Row|Crescent|Hill|Park|Walk)\b)"
)


def code(scan: Scan) -> bool:
    """Digits that are read one by one because of what stands before them."""
    if joins(scan):
        return False
    if match := scan.look(_CARD) or scan.look(_EMERGENCY):
        return _one_by_one(scan, match)
    match = scan.look(_DIGITS)
    if match is None or len(match[0]) < 3 or measured(scan, match.end()) or _YEARS.fullmatch(match[0]):
        return False
    before, digits = _window(scan), match[0]
    if not before or before[-2:].strip().isdecimal():
        # A number behind a number is one of a row of numbers.
        return False
    low = before.lower()
    # Three digits behind one of these words are a name and read in pairs: code 404.
    named = len(digits) == 3 and scan.last in tables.NUMBER_NAMES
    # Two short numbers with a dash are a range: items 16-55.
    short = "-" in digits[:3]
    if _KEYED.search(low) or (_SURE.search(low) and not named and not short):
        return _one_by_one(scan, match)
    if _ZIP_DIGITS.fullmatch(digits) and _ZIP.search(low):
        return _one_by_one(scan, match)
    if _CALLED.search(low):
        amount = _AMOUNT.search(low) and (len(digits) < 4 or digits.endswith("00"))
        return not amount and _counts_nothing(scan, match) and _one_by_one(scan, match)
    if len(digits) == 3 and _AIRLINE.search(before):
        return scan.skip(match.end(), numbers.pairs(digits))
    if len(digits) > 3 and (_BARE.search(low) or _AIRLINE.search(before)):
        return _counts_nothing(scan, match) and _one_by_one(scan, match)
    return False


def _window(scan: Scan) -> str:
    """The few words before."""
    return scan.text[max(0, scan.at - _LOOK_BACK) : scan.at]


def _counts_nothing(scan: Scan, match: re.Match[str]) -> bool:
    """Whether what follows is no noun that the number could count: call 911 now, but call 100 people."""
    following = _NEXT.match(scan.text, match.end())
    if following is None or match[0] in ("911", "999", "112"):
        return True
    word = following[1]
    return word in FUNCTION_WORDS or word in tables.AFTER_CODES or word.endswith(("ed", "ly"))


def _one_by_one(scan: Scan, match: re.Match[str], text: str = "") -> bool:
    """Every letter and digit of the match, or of `text` in it, by itself; a comma between the groups."""
    words: list[str] = []
    for group in re.findall(r"[A-Za-z0-9]+", text or match[0]):
        words += [","] if words else []
        words += spelled(group)
    return scan.skip(match.end(), words)


def spelled(text: str) -> list[str]:
    """Letters and digits one by one: "1A" -> one a."""
    return [w for c in text for w in (numbers.spelled(c) if c.isdecimal() else letters(c))]


def mixed_code(scan: Scan) -> bool:
    """Letters and digits in a code (order AB12345), bank accounts, British postcodes and American ones."""
    if joins(scan):
        return False
    if match := scan.look(_IBAN) or scan.look(_POSTCODE):
        return _one_by_one(scan, match)
    match = scan.look(_STATE)
    comma = scan.last == "," or (match and match["state"] not in _STATE_WORDS and scan.capital_before)
    if match and comma and not scan.shouting:
        scan.skip(match.start("zip"), letters(match["state"]))
        return _one_by_one(scan, match, match["zip"])
    match = scan.look(_MIXED)
    if match is None:
        return False
    text, low = match[0], _window(scan).lower()
    if sum(map(str.isdecimal, text)) < 2 or _AMOUNT_OR_SIZE.fullmatch(text):
        return False
    unit = _NUMBER_AND_LETTERS.fullmatch(text)
    if unit and unit["letters"] in tables.UNITS:
        return False
    if _KEYED.search(low) or _SURE.search(low):
        return _one_by_one(scan, match)
    if _BARE.search(low) and len(text) > 4 and text.upper() == text:
        return _counts_nothing(scan, match) and _one_by_one(scan, match)
    return False


def lettered(scan: Scan) -> bool:
    """A number with a letter that is a name, not a unit: bus 42A, 221B Baker Street."""
    if joins(scan):
        return False
    if match := scan.look(_STREET):
        return _lettered(scan, match)
    between = scan.out[scan.code_end :] if 0 < scan.code_end < len(scan.out) < scan.code_end + 4 else ["none"]
    again = _BETWEEN.issuperset(between)
    if scan.last in tables.LETTERED_NAMES or again:
        match = scan.look(_LETTERED)
        if match and (len(match["letters"]) == 1 or match["letters"] not in ("AM", "PM", *tables.UNITS)):
            return _lettered(scan, match) and to(scan, _lettered_end)
    match = scan.look(_SMALL) if scan.last in tables.HOMES else None
    return match is not None and _lettered(scan, match)


def _lettered_end(scan: Scan) -> bool:
    match = scan.look(_LETTERED)
    return match is not None and _lettered(scan, match)


def _lettered(scan: Scan, match: re.Match[str]) -> bool:
    scan.skip(match.end(), [*numbers.pairs(match["number"]), *letters(match["letters"])])
    scan.code_end = len(scan.out)
    return True


def phone(scan: Scan) -> bool:
    """Telephone numbers, in groups."""
    match = scan.look(_PHONE)
    if match is None or joins(scan):
        return False
    if (
        len(match[0]) == 8
        and "+" not in match[0]
        and (_ROUND.match(match[0]) or (match[0][3] == "-" and measured(scan, match.end())))
    ):
        # Round numbers and measures are a range: 500-1000 people, 100-1200 km.
        return False
    words = ["plus"] if match[0].startswith("+") else []
    for index, group in enumerate(re.findall(r"\d+", match[0])):
        words += ([","] if index else []) + numbers.spelled(group)
    return scan.skip(match.end(), words)


def dotted_groups(scan: Scan) -> bool:
    """Versions (1.2.3) and network addresses (192.168.0.1)."""
    match = scan.look(_GROUPS)
    if match is None or joins(scan):
        return False
    groups = match[0].split(".")
    address = len(groups) == 4
    words: list[str] = []
    for index, group in enumerate(groups):
        words += (["dot" if address else "point"] if index else []) + numbers.pairs(group)
    return scan.skip(match.end(), words)


def name_number(scan: Scan, digits: str) -> list[str] | None:
    """Words of a number behind a noun that makes a name of it: room 404, flight 1549; else None."""
    if scan.last not in tables.NUMBER_NAMES or not digits.isdecimal():
        return None
    if len(digits) == 3:
        return numbers.pairs(digits)
    return numbers.pairs(digits) if len(digits) == 4 and scan.last in tables.LONG_NAMES else None
