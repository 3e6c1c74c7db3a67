"""Options of a call: a closed set, exact types, ranges, and refusals that name what is allowed."""

from __future__ import annotations

import itertools
import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from dbus_fast import Variant
from hypothesis import given
from hypothesis import strategies as st

from edgettsd.bus import _options
from edgettsd.bus._contract import Contract, parent_introspection, xml_text
from edgettsd.bus._options import TYPES, Limits, check_text, parse_options
from edgettsd.bus._values import variant, variants
from edgettsd.engine._api import Priority, Reason, SpeakOptions, Voice
from edgettsd.errors import InvalidOptionError, InvalidTextError, UnknownVoiceError

LIMITS = Limits(max_text_bytes=100, max_seconds=30.0)
VOICES = (Voice("alpha"), Voice("beta"))


def parse(with_format: bool = False, **options: Variant):
    return parse_options(options, LIMITS, VOICES, ("english", "german"), with_format=with_format)


def test_no_options_are_the_defaults():
    assert parse() == (SpeakOptions(), "s16le")


def test_every_option_reaches_its_field():
    given_values = {
        "voice": "beta",
        "language": "german",
        "instruct": "gently",
        "priority": "text",
        "interrupt": True,
        "client_bound": True,
        "volume": 0.5,
        "seed": 2**64 - 1,
        "temperature": 1.5,
        "top_k": 2**31 - 1,
        "top_p": 0.9,
        "repetition_penalty": 1.1,
        "max_seconds": 29.0,
        "rate": 1.5,
    }
    assert given_values.keys() == TYPES.keys()
    options, audio_format = parse(
        True, format=Variant("s", "wav"), **{k: Variant(TYPES[k], v) for k, v in given_values.items()}
    )
    assert options == SpeakOptions(**{**given_values, "priority": Priority.TEXT})
    assert audio_format == "wav"


@pytest.mark.parametrize(
    ("key", "signature", "values", "allowed"),
    [
        ("volume", "d", [-0.1, 4.01, math.nan, math.inf, -math.inf], "a number from 0 to 4"),
        ("temperature", "d", [-1e-9, 2.1, math.nan], "a number from 0 to 2"),
        ("top_k", "u", [0, 2**31], "a whole number from 1 to 2147483647"),
        ("top_p", "d", [0.0, -0.0, 1.01, math.nan], "a number above 0 to 1"),
        ("repetition_penalty", "d", [0.49, 2.01, math.nan], "a number from 0.5 to 2"),
        ("rate", "d", [0.0, 0.49, 2.01, math.nan, math.inf], "a number from 0.5 to 2"),
        ("max_seconds", "d", [0.0, 30.1, math.nan, math.inf], "a number above 0 to 30"),
        ("priority", "s", ["", "Text", "urgent"], "important, message, text, notification, progress"),
        ("language", "s", ["", "English", "klingon"], "auto, english, german"),
    ],
)
def test_values_out_of_range(key, signature, values, allowed):
    for value in values:
        with pytest.raises(InvalidOptionError) as caught:
            parse(**{key: Variant(signature, value)})
        assert str(caught.value) == f"option {key} = {value!r}; allowed: {allowed}"


def test_a_language_is_named_once_where_the_engine_lists_auto_itself():
    given = {"language": Variant("s", "klingon")}
    with pytest.raises(InvalidOptionError, match=r"allowed: auto, english$"):
        parse_options(given, LIMITS, VOICES, ("auto", "english"), with_format=False)


@pytest.mark.parametrize(
    ("key", "signature", "values"),
    [
        ("volume", "d", [0.0, 4.0, 5e-324]),
        ("temperature", "d", [0.0, 2.0]),
        ("top_k", "u", [1]),
        ("top_p", "d", [5e-324, 1.0]),
        ("repetition_penalty", "d", [0.5, 2.0]),
        ("rate", "d", [0.5, 2.0]),
        ("max_seconds", "d", [0.001, 30.0]),
        ("seed", "t", [0]),
        ("priority", "s", [p.name.lower() for p in Priority]),
        ("language", "s", ["auto", "english", "german"]),
        ("voice", "s", ["alpha", "beta"]),
    ],
)
def test_bounds_are_allowed(key, signature, values):
    for value in values:
        expected = Priority[value.upper()] if key == "priority" else value
        assert getattr(parse(**{key: Variant(signature, value)})[0], key) == expected


WRONG = {
    "s": ("o", "/x"),
    "b": ("u", 1),
    "d": ("i", 1),
    "t": ("x", 1),
    "u": ("t", 1),
}


@pytest.mark.parametrize("key", TYPES)
def test_types_must_be_exact(key):
    signature, value = WRONG[TYPES[key]]
    with pytest.raises(InvalidOptionError) as caught:
        parse(**{key: Variant(signature, value)})
    assert (
        str(caught.value) == f'option {key} = {value!r} has D-Bus type "{signature}"; allowed: "{TYPES[key]}"'
    )


def test_unknown_options_list_all_allowed_ones():
    with pytest.raises(InvalidOptionError) as caught:
        parse(speed=Variant("d", 1.0))
    listed = ", ".join(f"{key} ({signature})" for key, signature in TYPES.items())
    assert str(caught.value) == f"option 'speed' is unknown; allowed: {listed}"


def test_format_is_known_only_where_audio_is_written():
    with pytest.raises(InvalidOptionError, match="option 'format' is unknown"):
        parse(format=Variant("s", "wav"))
    with pytest.raises(InvalidOptionError, match="option format = 'mp3'; allowed: s16le, wav"):
        parse(True, format=Variant("s", "mp3"))
    with pytest.raises(InvalidOptionError, match=r"format \(s\)"):
        parse(True, speed=Variant("d", 1.0))


def test_unknown_voices_list_the_known_ones():
    with pytest.raises(UnknownVoiceError, match="voice 'gamma' is unknown; allowed: alpha, beta"):
        parse(voice=Variant("s", "gamma"))
    with pytest.raises(UnknownVoiceError, match="allowed: none, the model has no voices"):
        parse_options({"voice": Variant("s", "x")}, LIMITS, (), ())


def test_long_values_are_cut_in_messages():
    with pytest.raises(UnknownVoiceError) as caught:
        parse(voice=Variant("s", "x" * 10_000))
    assert len(str(caught.value)) < 200


def test_the_types_are_those_of_the_documented_contract():
    table = xml_text().split("exactly the type given here:")[1].split("Errors")[0]
    # A meaning may go on in the next line, far to the right.
    assert dict(re.findall(r"^ {4}(\w+) +(\w)  ", table, re.MULTILINE)) == TYPES


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\0b", "text: a NUL character at position 1 is not allowed"),
        ("ab\ud800", "text: a lone surrogate at position 2 is not allowed"),
        ("é" * 51, "text: 102 bytes of UTF-8; at most 100 are allowed"),
    ],
)
def test_texts_that_cannot_be_spoken(text, message):
    with pytest.raises(InvalidTextError) as caught:
        check_text(text, LIMITS)
    assert str(caught.value) == message
    with pytest.raises(InvalidTextError, match="option instruct: "):
        parse(instruct=Variant("s", text))


def test_texts_up_to_the_limit_are_fine():
    for text in ("", "é" * 50, "a\n\t😀"):
        check_text(text, LIMITS)


value = st.one_of(
    st.booleans().map(lambda v: Variant("b", v)),
    st.floats().map(lambda v: Variant("d", v)),
    st.integers(0, 2**32 - 1).map(lambda v: Variant("u", v)),
    st.integers(0, 2**64 - 1).map(lambda v: Variant("t", v)),
    st.text(max_size=12).map(lambda v: Variant("s", v)),
)


@given(st.dictionaries(st.sampled_from([*TYPES, "format", "x"]), value, max_size=4), st.booleans())
def test_any_options_are_taken_or_refused_cleanly(options, with_format):
    try:
        parsed, audio_format = parse_options(options, LIMITS, VOICES, (), with_format=with_format)
    except (InvalidOptionError, UnknownVoiceError, InvalidTextError):
        return
    assert all(options[key].signature == _options.TYPES.get(key, "s") for key in options)
    assert 0 <= parsed.volume <= 4
    assert audio_format in ("s16le", "wav")


@pytest.mark.parametrize(
    ("plain", "signature", "value"),
    [
        (True, "b", True),
        (3, "t", 3),
        (2**64 - 1, "t", 2**64 - 1),
        (0, "u", 0),
        (0.5, "d", 0.5),
        (3, "d", 3.0),
        (-3, "d", -3.0),
        ("x", "s", "x"),
        (Reason.LIMIT, "s", "limit"),
        (["a"], "as", ["a"]),
        ((), "as", []),
        (np.float32(0.5), "d", 0.5),
        (np.int64(7), "t", 7),
        (np.bool_(True), "b", True),
    ],
)
def test_plain_values_become_variants_of_their_keys_type(plain, signature, value):
    made = variant(plain, signature)
    assert (made.signature, made.value) == (signature, value)
    assert type(made.value) is type(value)


@pytest.mark.parametrize(
    ("plain", "signature"),
    [
        (-1, "t"),
        (2**64, "t"),
        (2**32, "u"),
        (True, "t"),
        (True, "d"),
        (1.0, "t"),
        (1, "b"),
        (1, "s"),
        ("x", "as"),
        ([1], "as"),
        (b"x", "s"),
        (object(), "s"),
        (1, "x"),
    ],
)
def test_values_of_another_type_are_refused(plain, signature):
    with pytest.raises(TypeError, match=rf'is not of D-Bus type "{signature}"'):
        variant(plain, signature)


def test_unknown_figures_are_left_out_and_those_that_do_not_fit_are_logged(caplog):
    types = {"a": "t", "b": "t", "c": "t"}
    assert variants({"a": None, "b": 1, "c": -1, "d": 1}, types) == {"b": Variant("t", 1)}
    assert [record.getMessage() for record in caplog.records] == [
        'c is not sent: -1 of type int is not of D-Bus type "t"',
        "d = 1 is not sent: the contract has no such key",
    ]


def test_every_key_has_one_type_in_the_contract():
    keys = Contract.load().keys
    assert keys["ListVoices"] == {"id": "s", "languages": "as", "description": "s", "default": "b"}
    assert keys["Started"] == {"voice": "s", "seed": "t", "ttfa_ms": "d"}
    assert keys["Finished"].items() >= {"frames": "t", "audio_seconds": "d", "detail": "s"}.items()
    for one, other in itertools.combinations(keys.values(), 2):
        assert {key: one[key] for key in one.keys() & other.keys()}.items() <= other.items()


def test_the_contract_is_read_from_the_xml():
    contract = Contract.load()
    assert (contract.methods["Speak"].inputs, contract.methods["Speak"].outputs) == ("sa{sv}", "t")
    assert contract.methods["Pause"] == type(contract.methods["Pause"])("", "")
    assert contract.signals == {"Started": "ta{sv}", "Finished": "tsa{sv}"}
    assert contract.properties["QueueLength"] == "u"
    assert [i.get("name") for i in ET.fromstring(contract.introspection)][
        -1
    ] == "org.freedesktop.DBus.Properties"


def test_every_member_of_the_xml_is_documented_by_a_comment():
    parser = ET.XMLParser(target=ET.TreeBuilder(insert_comments=True))
    interface = ET.fromstring(xml_text(), parser).find("interface")
    assert interface is not None
    children = list(interface)
    members = [child for child in children if child.tag in ("method", "signal", "property")]
    assert len(members) == 19
    for before, child in itertools.pairwise(children):
        if child in members:
            assert before.tag is ET.Comment, f"{child.get('name')} has no comment"


@pytest.mark.parametrize("path", ["/org/edgettsd/Speech1", "/org/edgettsd/Speech1/x", "/com", "/org/other"])
def test_only_parents_name_a_child(path):
    assert parent_introspection(path) is None
