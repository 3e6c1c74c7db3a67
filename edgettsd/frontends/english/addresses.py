"""What machines are called by: URLs, e-mail addresses, files, network addresses, identifiers and digests."""

from __future__ import annotations

import ipaddress
import re

from edgettsd.frontends.english import numbers, tables
from edgettsd.frontends.english.codes import spelled
from edgettsd.frontends.english.names import pronounceable
from edgettsd.frontends.english.scan import Scan, letters, words_of

_ADDRESS = re.compile(
    r"(?:[A-Za-z][A-Za-z0-9+.-]{0,15}://|www\.|[A-Za-z0-9._%+-]{1,64}@(?=[A-Za-z0-9]))[^\s<>\"]+"
)
_DOMAIN = re.compile(
    r"(?:[A-Za-z0-9-]{1,63}\.){1,8}(?:com|org|net|io|dev|edu|gov|co|uk|de|fr|eu|info|me|app|local)"
    r"(?![A-Za-z0-9])(?:/[^\s<>\"]*)?"
)
_PATH = re.compile(r"~?(?:/[A-Za-z0-9._-]+)+/?")
_EXTENSIONS = (
    r"txt|pdf|png|jpe?g|mp3|mp4|wav|py|c|h|sh|json|toml|xml|html?|log|zip|conf|service"
    r"|gz|csv|md|so|cfg|ini|yaml|yml|deb|img|iso|bin|js|jsx|ts|tsx|css|cpp|hpp|exe|dll|docx?|xlsx?|pptx?|svg|webp|gif|mkv"
)
_FILE = re.compile(rf"[A-Za-z0-9_-]{{1,64}}\.(?:{_EXTENSIONS})(?![A-Za-z0-9])")
_ENDING = re.compile(
    rf"\*?\.(?P<name>{_EXTENSIONS}|com|org|net|NET|Net|io|gov|edu|env|gitignore)(?![A-Za-z0-9.])"
)
_HEX = re.compile(r"0[xX]([0-9A-Fa-f]{1,16})(?![A-Za-z0-9])")
_BASE = re.compile(r"0(?:[bB][01]{1,64}|[oO][0-7]{1,32})(?!\w)")
_UNICODE = re.compile(r"U\+(?P<code>[0-9A-F]{4,6})(?!\w)")
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?!\w)")
_MAC = re.compile(
    r"[0-9A-Fa-f]{2}(?P<sign>[:-])[0-9A-Fa-f]{2}(?:(?P=sign)[0-9A-Fa-f]{2}){1,19}(?!\w|[:-]\w)"
    r"|[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}(?!\w|\.\w)"
)
_IPV6 = re.compile(
    r"(?P<address>[0-9A-Fa-f:]{3,39})(?:%(?P<zone>[A-Za-z0-9]{1,15}))?(?:/(?P<prefix>\d{1,3}))?(?![\w:])"
)
_DIGEST = re.compile(r"(?:[0-9a-f]{7,128}|[0-9A-F]{7,128})(?!\w)")
_COLOR = re.compile(
    r"#(?=[0-9A-Fa-f]*\d)(?=[0-9A-Fa-f]*[A-Fa-f])(?:[0-9A-Fa-f]{8}|[0-9A-Fa-f]{6}|[0-9A-Fa-f]{3})(?!\w)"
)
_SWITCHES = re.compile(r"\d[A-Fa-f]|[A-Fa-f]\d")
_REVISION = re.compile(r"(?:commit|revision|hash|sha|sha-?1|sha-?256|md5|checksum|digest):? $")


def address(scan: Scan) -> bool:
    """URLs, e-mail addresses, host names, and names of files."""
    if scan.before.isalnum():
        return False
    match = scan.look(_ADDRESS) or scan.look(_DOMAIN) or scan.look(_PATH) or scan.look(_FILE)
    if match is None or (scan.text[scan.at] == "/" and match[0].count("/") < 2 and len(match[0]) < 4):
        return False
    found = match[0].rstrip(".,;:!?)]}'\"")
    scan.at += len(found)
    body = re.sub(r"^[A-Za-z][A-Za-z0-9+.-]{0,15}://", "", found).removeprefix("www.").rstrip("/")
    for part in re.finditer(r"[A-Za-z]+|[0-9]+|.", body):
        piece = part[0]
        if piece.isdecimal():
            scan.say(*numbers.pairs(piece))
        elif piece.isalpha():
            _address_word(scan, piece)
        elif piece in tables.ADDRESS_SYMBOLS:
            scan.say(*tables.ADDRESS_SYMBOLS[piece].split())
    return True


def _address_word(scan: Scan, word: str) -> None:
    low = word.lower()
    if low in ("com", "org", "net", "dev", "info", "app", "local", "gov") or (
        len(low) > 2 and scan.known(low)
    ):
        scan.say(low)
    elif len(low) <= 2 or (len(low) <= 4 and not pronounceable(low)):
        scan.say(*letters(low))
    else:
        scan.say(*words_of(low))


def ending(scan: Scan) -> bool:
    """The end of a name alone: .com, .NET, *.txt."""
    match = scan.look(_ENDING)
    if match is None or scan.before.isalnum() or scan.before in (".", ")", "'"):
        return False
    scan.skip(match.end(), ["dot"])
    _address_word(scan, match["name"])
    return True


def identifier(scan: Scan) -> bool:
    """Hexadecimal numbers, MAC and IPv6 addresses, UUIDs, digests and colors, digit by digit."""
    if scan.before.isalnum():
        return False
    if match := scan.look(_HEX):
        return scan.skip(match.end(), ["zero", "x.", *spelled(match[1])])
    if match := scan.look(_BASE):
        return scan.skip(match.end(), spelled(match[0]))
    if match := scan.look(_UNICODE):
        return scan.skip(match.end(), ["u.", "plus", *spelled(match["code"])])
    if match := scan.look(_UUID):
        return _groups(scan, match)
    if (match := scan.look(_MAC)) and _is_mac(match[0]):
        return _groups(scan, match)
    return _ipv6(scan) or _digest(scan)


def _groups(scan: Scan, match: re.Match[str]) -> bool:
    words: list[str] = []
    for group in re.split(r"[:.-]", match[0]):
        words += [*([","] if words else []), *spelled(group)]
    return scan.skip(match.end(), words)


def _is_mac(text: str) -> bool:
    """Whether groups of hexadecimal digits can be no time, date or word."""
    groups = re.split(r"[:.-]", text)
    digits, hexadecimal = any(map(str.isdecimal, text)), any(map(str.isalpha, text))
    if ":" in text:
        return (digits and hexadecimal) or len(groups) >= 6
    return digits and (len(groups) == 6 or (hexadecimal and len(groups) > 3) or ("." in text and hexadecimal))


def _ipv6(scan: Scan) -> bool:
    match = scan.look(_IPV6)
    if match is None or match["address"].count(":") < 2 or not any(map(str.isdecimal, match["address"])):
        return False
    try:
        ipaddress.IPv6Address(match["address"])
    except ValueError:
        return False
    words: list[str] = []
    for index, group in enumerate(match["address"].split(":")):
        words += [*(["colon"] if index else []), *spelled(group)]
    if match["zone"]:
        words.append("percent")
        for part in re.findall(r"\d+|[A-Za-z]+", match["zone"]):
            words += numbers.pairs(part) if part.isdecimal() else [part.lower()]
    if match["prefix"]:
        words += ["slash", *numbers.cardinal(match["prefix"])]
    return scan.skip(match.end(), words)


def _digest(scan: Scan) -> bool:
    """Digests and the short names of revisions: letters and digits that change often."""
    match = scan.look(_DIGEST)
    if match is None:
        return False
    switches = len(_SWITCHES.findall(match[0]))
    named = bool(switches and _REVISION.search(scan.text[max(0, scan.at - 16) : scan.at].lower()))
    if not named and (switches < 3 or (len(match[0]) < 16 and switches * 4 < len(match[0]))):
        return False
    return scan.skip(match.end(), spelled(match[0]))


def color(scan: Scan) -> bool:
    """A color as on web pages: #ff8800."""
    match = scan.look(_COLOR)
    return (
        match is not None
        and not scan.before.isalnum()
        and scan.skip(match.end(), ["hash", *spelled(match[0][1:])])
    )
