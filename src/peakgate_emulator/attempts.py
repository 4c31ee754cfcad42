"""Which texts of a source are compiled, one after the other, until one compiles.

First without host code, then also without other kernels, then without what no kernel mentions, at last without
what the compiler's errors name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from peakgate_emulator.declarations import WORD, Declaration, Parsed, declarations_in
from peakgate_emulator.device_code import (
    ANNOTATIONS,
    behind_access,
    blanked,
    body_of,
    device_texts,
    is_specialisation,
    separated,
    with_their_macros,
)
from peakgate_emulator.files import cache_folder, write_whole
from peakgate_emulator.sources import INCLUDE, SourceFile

Failure = TypeVar("Failure")

_OF_A_TYPE = re.compile(r"::\s*~?(?:operator\b[^()]*|\w+\s*)\(\Z")
"""The end of the head of a member function that is defined outside of its type."""


def device_only(
    files: Sequence[SourceFile], kernels: Collection[str], folder: Path, rewrite: Callable[[str], str] = str
) -> Iterator[Path]:
    """Yields files to compile, to be tried in order: without host code, then also without other kernels.

    Each is the source itself or a copy in ``folder``. Functions and other declarations that use the host's libraries
    are removed, and host functions that no kernel mentions; line numbers stay. Each text is then passed to ``rewrite``,
    which must keep lines too. If something needed was removed, the compiler reports it.
    """
    first = _copied(files, device_texts(files), folder, rewrite)
    yield first
    if (alone := _copied(files, device_texts(files, kernels), folder, rewrite)) != first:
        yield alone


def refused_by(
    attempt: Callable[[Path], Failure | None],
    places: Callable[[Failure], Collection[tuple[str, int]]],
    files: Sequence[SourceFile],
    kernels: Collection[str],
    rewrite: Callable[[str], str] = str,
) -> Failure | None:
    """Compile the files of ``device_only``, then without more of what no kernel needs, until one compiles.

    ``attempt`` compiles a file and returns None, or why it fails; ``places`` gives file name and line of each error in
    that. Left out are first the functions for the device that no kernel mentions, then what fails: the host's
    functions, types and variables, of types at first the bodies of functions with errors alone, and of functions for
    the device their bodies, so that a kernel that calls one fails. None if one compiles, else why the last of
    ``device_only`` fails: what is missing from the others may be what a kernel needs.
    """
    refused, folder, file = None, cache_folder() / "sources", None
    for file in device_only(files, kernels, folder, rewrite):
        refused = attempt(file)
        if refused is None:
            return None
    mentioned = _copied(files, device_texts(files, kernels, mentioned=True), folder, rewrite)
    if mentioned != file and attempt(mentioned) is None:
        return None
    texts, failure = device_texts(files, kernels), refused
    annotations = with_their_macros(separated(files)[0], ANNOTATIONS)
    while failure is not None:
        failing = places(failure)
        of_texts = [replace(file, text=text) for file, text in zip(files, texts, strict=True)]
        fewer = [_without(part, failing, annotations) for part in separated(of_texts)[0]]
        if fewer == texts:
            return refused
        texts, failure = fewer, attempt(_copied(files, fewer, folder, rewrite))
    return None


def _without(part: Parsed, places: Collection[tuple[str, int]], annotations: set[str]) -> str:
    """A file's text without the host's declarations at places with errors, and the bodies of the device's functions."""
    text = part.file.text
    lines = {line for name, line in places if Path(name).name == part.file.path.name}
    if not lines or not part.is_divided:
        return text
    begins = [0, *(match.end() for match in re.finditer("\n", text)), len(text) + 1]

    def fails(each: Declaration) -> bool:
        begin = behind_access(part.code, each.start)
        return any(begin < begins[line] and begins[line - 1] < each.end for line in lines if line < len(begins))

    def is_for_host(each: Declaration) -> bool:
        return annotations.isdisjoint(WORD.findall(each.head))

    drop, bodies = list[Declaration](), list[tuple[int, int]]()
    for each in filter(fails, part.declarations):
        opening = -1 if each.is_function else part.code.find("{", each.start, each.end)
        members = declarations_in(part, opening + 1, part.closings[opening]) if opening >= 0 else ()
        of_functions = [
            body_of(part, function) if part.code[function.end - 1] == "}" else (function.start, function.end)
            for function in (*members, *([each] if each.is_function and not is_for_host(each) else ()))
            if function.is_function
            and fails(function)
            and (is_for_host(function) or part.code[function.end - 1] == "}")
            and "__global__" not in function.head
        ]
        if _OF_A_TYPE.search(each.head) and "__global__" not in each.head:
            drop.append(each)  # the type declares it, and what calls it fails
            continue
        bodies += of_functions
        if not (of_functions or is_specialisation(part, each)) and is_for_host(each):
            drop.append(each)
    return blanked(part, drop, bodies)


def _copied(files: Sequence[SourceFile], texts: Sequence[str], folder: Path, rewrite: Callable[[str], str]) -> Path:
    """The path of the first file, copied with the files it includes if any text differs from the file's."""
    blanked = [rewrite(text) for text in texts]
    if all(text == file.text for text, file in zip(blanked, files, strict=True)):
        return files[0].path
    key = hashlib.sha256(repr([[str(file.path) for file in files], blanked]).encode()).hexdigest()[:20]
    copies = {file.path: folder / key / f"{at}-{file.path.name}" for at, file in enumerate(files)}
    for file, text in zip(files, blanked, strict=True):
        if not copies[file.path].exists():
            write_whole(copies[file.path], f'#line 1 "{file.path.name}"\n' + _redirected(text, file, copies))
    return copies[files[0].path]


def _redirected(text: str, file: SourceFile, copies: Mapping[Path, Path]) -> str:
    """The text with its includes of other copied files pointing at the copies."""

    def redirect(match: re.Match[str]) -> str:
        target = file.includes.get(match["quoted"] or match["angled"])
        return match[0] if target is None else f'#include "{copies[target]}"'

    return INCLUDE.sub(redirect, text)
