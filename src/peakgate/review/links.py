"""Resolves symbolic links hop by hop, as the operating system does, in time linear in their number and length."""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from peakgate.base.files import each_below

MOST_HOPS = 40
"""Maximum number of links in one path, as in Linux."""


@dataclass(slots=True)
class _Place:
    """A file or folder by its resolved path; ``target`` is its content if it is a link."""

    path: str
    target: str | None = None
    above: _Place | None = None
    inside: dict[str, _Place] = field(default_factory=dict)

    def named(self, name: str) -> _Place | None:
        """The entry of this folder with this name (cached); None if it does not exist."""
        if (known := self.inside.get(name)) is not None:
            return known
        path = f"{self.path}/{name}"
        try:
            target = os.readlink(path)  # noqa: PTH115  (unresolved)
        except OSError as error:
            if error.errno != errno.EINVAL:  # EINVAL: not a link
                return None
            target = None
        return self.inside.setdefault(name, _Place(path, target, self))


class Links:
    """A cache of links, which must not change while it is used."""

    def __init__(self) -> None:
        self._root = _Place("")

    def hops(self, path: str) -> Iterator[str]:
        """Yield the resolved path of each link in an absolute path, and last the path that it leads to.

        The last path may not exist; it is not yielded after more than MOST_HOPS links.
        """
        at, missing, left = self._root, list[str](), MOST_HOPS
        rest = path.split("/")[::-1]
        while rest:
            name = rest.pop()
            if name in ("", "."):
                continue
            if name == "..":
                if missing:
                    missing.pop()
                else:
                    at = at.above or at
            elif missing or (found := at.named(name)) is None:
                missing.append(name)
            elif found.target is None:
                at = found
            else:
                yield found.path
                if not left:
                    return
                left -= 1
                rest += found.target.split("/")[::-1]
                at = self._root if found.target.startswith("/") else at
        yield "/".join([at.path, *missing]) or "/"

    def leads_into(self, path: str, folder: str) -> bool:
        """Whether a path leads into ``folder``, which ends with a slash; False for loops and too many links."""
        *_, last = self.hops(path)
        return last.startswith(folder) and not os.path.islink(last)  # noqa: PTH114  (False for too long names)


def reached(top: Path, places: Iterable[Path]) -> list[str]:
    """The places, all links below them, and what these lead to, inside ``top``; paths relative to it."""
    inside = f"{str(top.resolve()).rstrip('/')}/"
    links, found, seen = Links(), dict[str, None](), set[str]()
    waiting = deque(str(place.absolute()) for place in places)
    while waiting:
        for hop in links.hops(waiting.popleft()):
            if hop not in found and f"{hop}/".startswith(inside):
                found[hop] = None
                if not os.path.islink(hop):  # noqa: PTH114  (False for too long names)
                    waiting += (each.path for each in each_below(hop, seen) if each.is_symlink())
    return [hop.removeprefix(inside) if f"{hop}/" != inside else "." for hop in found]
