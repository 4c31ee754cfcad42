"""Where the links of a tree lead, hop by hop, as the kernel follows them; in time linear in their number and length."""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from peakgate.base.files import each_below

MOST_HOPS = 40
"""Links on one way; Linux follows no more."""


@dataclass(slots=True)
class _Place:
    """A file or folder by its path without links; ``target`` is where it leads if it is a link itself."""

    path: str
    target: str | None = None
    above: _Place | None = None
    inside: dict[str, _Place] = field(default_factory=dict)

    def named(self, name: str) -> _Place | None:
        """What is in this folder under a name, looked up once; None where there is nothing."""
        if (known := self.inside.get(name)) is not None:
            return known
        path = f"{self.path}/{name}"
        try:
            target = os.readlink(path)  # noqa: PTH115  (as it stands there)
        except OSError as error:
            if error.errno != errno.EINVAL:  # which says that it is no link
                return None
            target = None
        return self.inside.setdefault(name, _Place(path, target, self))


class Links:
    """What is known of a tree's links, which do not change meanwhile."""

    def __init__(self) -> None:
        self._root = _Place("")

    def hops(self, path: str) -> Iterator[str]:
        """Each link on the way to an absolute path, as the place where it is without links, and last where they lead.

        That last place is left out where there are more than MOST_HOPS links; it need not exist.
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
        """Whether a path leads into a folder, given with a slash at its end; a circle, or too many links, does not."""
        *_, last = self.hops(path)
        return last.startswith(folder) and not os.path.islink(last)  # noqa: PTH114  (nor where its name is too long)


def reached(top: Path, places: Iterable[Path]) -> list[str]:
    """These places and all that links below them lead to, each link on the way by itself; as git names them."""
    inside = f"{str(top.resolve()).rstrip('/')}/"
    links, found, seen = Links(), dict[str, None](), set[str]()
    waiting = deque(str(place.absolute()) for place in places)
    while waiting:
        for hop in links.hops(waiting.popleft()):
            if hop not in found and f"{hop}/".startswith(inside):
                found[hop] = None
                if not os.path.islink(hop):  # noqa: PTH114  (nor where its name is too long to ask)
                    waiting += (each.path for each in each_below(hop, seen) if each.is_symlink())
    return [hop.removeprefix(inside) if f"{hop}/" != inside else "." for hop in found]
