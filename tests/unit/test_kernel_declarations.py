"""What Cython is told of the kernels' C is what the headers say: structures, constants and functions.

Cython repeats each declaration that it uses. A C compiler tells whether the headers have all of them, with
the same types; and no field is left out of a structure that Cython fills in.
"""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import kernel_sources
import pytest

KERNELS = kernel_sources.KERNELS
FILES = sorted([*KERNELS.glob("*/*.pyx"), *KERNELS.glob("*.pxd")])
# Structures of which Cython reads some fields and writes none, or which a C function initialises as a whole.
PARTIAL = {
    "et_talker",
    "et_predictor",
    "et_decoder",
    "et_pipe",
    "et_decode",
    "et_cost_meter",
    "et_resample",
    "et_sampler",
    "et_frames",
    "et_fake_talker",
    "et_fake_predictor",
    "et_fake_decoder",
}


@dataclass(frozen=True)
class Declaration:
    """A structure (fields: type and name), an enumeration (fields: names) or a function (text)."""

    kind: str
    name: str
    header: str
    fields: tuple[tuple[str, str], ...] = ()
    text: str = ""


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """Header and lines of each `cdef extern from "room/header.h"`."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if match := re.match(r'cdef extern from "(\w+/et_\w+\.h)"', line):
            body = itertools.takewhile(lambda x: not x or x.startswith(" "), lines[number + 1 :])
            # A declaration that goes on in the next line is one.
            yield match[1], re.sub(r",\n\s+", ", ", "\n".join(body)).splitlines()


def _field(text: str) -> tuple[str, str]:
    """Type and name: `int *x[4]` is `int *[4]` and `x`; `int (*f)(int)` is `int (*)(int)` and `f`."""
    text = re.sub(r"\s*(noexcept|nogil)\b", "", text).strip()
    if match := re.match(r"(.*\(\*)(\w+)(\).*)$", text):
        return match[1] + match[3], match[2]
    match = re.match(r"(.*?)(\w+)((?:\[\w+\])*)$", text)
    assert match, text
    return match[1].strip() + match[3], match[2]


def _declarations(text: str) -> Iterator[Declaration]:
    for header, lines in _blocks(text):
        head: tuple[str, str] | None = None
        fields: list[tuple[str, str]] = []
        for line in [*lines, "    end"]:
            if not line.strip():
                continue
            if line.startswith("        "):
                if line.strip() != "pass":
                    fields.append(_field(line) if head and head[0] == "struct" else ("", line.strip()))
                continue
            if head is not None:
                yield Declaration(head[0], head[1], header, tuple(fields))
            head, fields = None, []
            line = line.strip()
            if match := re.match(r"(?:ctypedef )?(struct|enum) ?(\w*):$", line):
                head = (match[1], match[2])
            elif line != "end":
                line = line.removesuffix(" nogil")
                returned, name = _field(line[: line.index("(")])
                yield Declaration("function", name, header, text=f"{returned} {line[line.index('(') :]}")


DECLARED = [d for path in FILES for d in _declarations(path.read_text())]


def _either(kind: str) -> str:
    """Cython's `bint` is C's int or bool."""
    places = kind.count("bint")
    # It knows no atomics either.
    found = [kind] if not kind.isidentifier() else [kind, f"_Atomic({kind})"]
    if places:
        found = []
        for choice in itertools.product(("int", "_Bool"), repeat=places):
            pieces = kind.split("bint")
            found.append("".join(a + b for a, b in itertools.zip_longest(pieces, choice, fillvalue="")))
    return " || ".join(f"__builtin_types_compatible_p(TYPE, __typeof__({f}))" for f in found)


def _assertions(declaration: Declaration) -> Iterator[str]:
    d = declaration
    if d.kind == "enum":
        for _, name in d.fields:
            yield f'_Static_assert({name} == {name}, "{name}");'
    elif d.kind == "function":
        condition = _either(d.text).replace("TYPE", f"__typeof__({d.name})")
        yield f'_Static_assert({condition}, "{d.name}");'
    else:
        yield (
            f'_Static_assert(sizeof({d.name}) > 0 || 1, "{d.name}");'
            if d.fields
            else f"extern {d.name} *x_{d.name};"
        )
        for kind, name in d.fields:
            condition = _either(kind).replace("TYPE", f"__typeof__((({d.name} *)0)->{name})")
            yield f'_Static_assert({condition}, "{d.name}.{name}");'


def _compiled(declared: list[Declaration], tmp_path: Path) -> str:
    """What the compiler has against it."""
    source = tmp_path / "declared.c"
    lines = [f'#include "{header}"' for header in dict.fromkeys(d.header for d in declared)]
    source.write_text("\n".join([*lines, *(a for d in declared for a in _assertions(d))]) + "\n")
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")[0]
    command = [compiler, "-std=gnu11", "-fsyntax-only", *kernel_sources.INCLUDES, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def test_the_headers_have_what_cython_declares(tmp_path: Path) -> None:
    kinds = [d.kind for d in DECLARED]
    assert kinds.count("struct") > 20
    assert kinds.count("function") > 60
    assert kinds.count("enum") > 3
    assert _compiled(DECLARED, tmp_path) == ""


@pytest.mark.parametrize(
    "text, problem",
    [
        ("    ctypedef struct et_item:\n        int32_t generation", "et_item.generation"),
        ("    ctypedef struct et_item:\n        int16_t codes[16]", "et_item.codes"),
        ("    ctypedef struct et_item:\n        uint32_t other", "other"),
        ("    enum:\n        ET_ITEM_OTHER", "ET_ITEM_OTHER"),
        ("    int et_pipe_push_item(et_pipe *p, et_item *item)", "et_pipe_push_item"),
        ("    int et_pipe_trace(et_pipe *p, int more)", "et_pipe_trace"),
        ("    void et_pipe_set_paused(et_pipe *p, double paused)", "et_pipe_set_paused"),
    ],
)
def test_a_wrong_declaration_is_found(text: str, problem: str, tmp_path: Path) -> None:
    declared = list(_declarations(f'cdef extern from "pipe/et_pipe.h" nogil:\n{text}\n'))
    assert len(declared) == 1
    assert problem in _compiled(declared, tmp_path)


def _structures() -> dict[str, list[str]]:
    """Names of the fields of each structure of the headers."""
    found = {}
    for path in KERNELS.glob("*/*.h"):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        for body, name in re.findall(r"typedef struct(?: \w+)? \{(.*?)\n\} (\w+);", text, re.DOTALL):
            names = []
            for statement in body.split(";"):
                if match := re.search(r"\(\*(\w+)\)", statement):
                    names.append(match[1])
                else:
                    names += re.findall(r"(\w+)(?:\[[^]]*\])*\s*(?=,|$)", statement.strip())
            found[name] = names
    return found


def test_cython_knows_every_field_of_a_structure_that_it_fills_in() -> None:
    headers = _structures()
    declared = {d.name: [name for _, name in d.fields] for d in DECLARED if d.kind == "struct" and d.fields}
    assert {"et_segment", "et_item", "et_alsa_config"} <= declared.keys() & headers.keys()
    missing = {
        name: [f for f in headers[name] if f not in fields]
        for name, fields in declared.items()
        if name not in PARTIAL and name in headers
    }
    assert {name: fields for name, fields in missing.items() if fields} == {}
    assert {name for name in declared if name not in PARTIAL and name not in headers} == set()


def test_no_structure_is_called_partial_that_is_whole() -> None:
    headers = _structures()
    fields = {d.name: {name for _, name in d.fields} for d in DECLARED if d.kind == "struct" and d.fields}
    assert {name for name in PARTIAL if set(headers.get(name, ["?"])) <= fields.get(name, set())} == set()


def test_each_declaration_is_made_once() -> None:
    names = [d.name for d in DECLARED if d.name and (d.kind != "struct" or d.fields)]
    names += [name for d in DECLARED if d.kind == "enum" for _, name in d.fields]
    assert sorted({name for name in names if names.count(name) > 1}) == []
