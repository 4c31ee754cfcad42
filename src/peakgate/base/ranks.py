"""The processes of one run with a GPU each, as torchrun starts them: their exchanges, and their common end.

In an exchange rank 0 gathers a value of every rank and sends all of them to each, over Unix sockets of this host. Each
exchange names its step, so ranks that are not at the same one notice it. Threads read the sockets: a rank that ends or
waits too long ends all of them with one line and exit code 3, whatever they are waiting for, such as a collective.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from peakgate.base.errors import CannotDecide, Code, PeakgateError
from peakgate.base.safe_text import one_line
from peakgate.base.verdict import FAILING, FAULTY, UNDECIDED, ExitCode, Judgement, Verdict

LIMIT_S = 300.0
"""The longest time between two exchanges of a benchmark test, and the longest wait for another rank."""

LEAD_NS = 1_000_000
"""From rank 0's message to a common start: longer than messages take."""

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT")
"""The variables of torchrun by which ranks find each other."""

_END = "the end of the test"


class EndedElsewhere(BaseException):
    """Another rank ended the test with this judgement. No ``Exception``, so that no test catches it."""

    def __init__(self, judgement: Judgement) -> None:
        super().__init__(f"{judgement.verdict}: {judgement.reason}")
        self.judgement = judgement


class Ranks:
    """The ranks of a run: this one's number ``rank`` and their number ``size``. This class is a run in one process."""

    rank, size, local = 0, 1, 0

    def connect(self) -> None:
        """Connect all ranks."""

    def all(self, step: str, value: Any = None) -> list[Any]:  # noqa: ARG002  (the step is for several)
        """The values of all ranks, which JSON can represent; waits until each is at this step."""
        return [value]

    def same(self, step: str, value: Any) -> Any:
        """The value of rank 0."""
        return self.all(step, value)[0]

    def any(self, step: str, value: object) -> bool:
        """Whether the value of any rank is true."""
        return any(self.all(step, bool(value)))

    def start(self, step: str) -> None:
        """Return at the same moment in all ranks."""

    def begin_test(self, case: str) -> None:
        """Begin a benchmark test; until its end, no two exchanges may be further apart than ``LIMIT_S``."""

    def end_test(self, case: str, judgement: Judgement | None, skip: str = "") -> Judgement | None:  # noqa: ARG002
        """The judgement of all ranks on a test, from each one's own, or None and the reason why it was skipped."""
        return judgement

    def end_all(self, reason: str, details: str = "") -> None:
        """End the processes of all ranks, if there are several; only this one prints the ``details``."""

    def finish(self) -> None:
        """Wait until all ranks have run their tests; others than rank 0 also wait until that one disconnects.

        A launcher that sees one process fail ends the others: that must not stop rank 0 from writing the run file.
        """

    def close(self) -> None:
        """Disconnect; without ``finish`` before it, this ends the other ranks."""


ALONE = Ranks()


def launched() -> bool:
    """Whether a launcher started this process as one of several ranks."""
    size = os.environ.get("WORLD_SIZE", "")
    return "LOCAL_RANK" in os.environ and size.isdigit() and int(size) > 1


def started() -> Ranks:
    """The ranks that a launcher started, not yet connected; raises PeakgateError if they are not all on this host."""
    if not launched():
        return ALONE
    given = {name: os.environ.get(name, "") for name in VARIABLES}
    rank, size, local, of_host, port = (int(value) if value.isdigit() else -1 for value in given.values())
    if port < 0 or size != of_host or not (0 <= rank < size and 0 <= local < size):
        described = ", ".join(f"{name}={value}" for name, value in given.items())
        raise PeakgateError(
            f"{described}; expected the variables of `torchrun --nproc-per-node N` for processes of one host",
            Code.ENVIRONMENT,
        )
    return _Connected(rank, size, local, f"{os.getuid()}-{port}")


class _Peer:
    """The socket to another rank, and the lines that come from it."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket, self.stream = connected, connected.makefile("rb")


class _Connected(Ranks):
    """Several ranks: rank 0 has a socket to each other one, and each of these has one to rank 0."""

    def __init__(self, rank: int, size: int, local: int, name: str) -> None:
        self.rank, self.size, self.local = rank, size, local
        self._address = f"\0peakgate-ranks-{name}"  # no file: it ends with its process
        self._peers: dict[int, _Peer] = {}
        self._heard: dict[int, SimpleQueue[Any]] = {}
        self._closing, self._closed, self._ending = False, threading.Event(), threading.Lock()
        self._case, self._step, self._until = "", "", float("inf")
        self._judgement: Judgement | None = None

    def connect(self) -> None:
        """Raises CannotDecide if a rank has not come after ``LIMIT_S``."""
        self._terminal = os.dup(2)  # while a test runs, pytest captures 2
        until = time.monotonic() + LIMIT_S
        try:
            self._peers = self._accepted(until) if self.rank == 0 else {0: self._joined(until)}
        except OSError as error:
            why = f"rank {self.rank} of {self.size} cannot connect with the others: {error.strerror or error}"
            raise CannotDecide(f"{why}; give each torchrun a --master-port of its own", Code.PROCESS) from None
        for rank in self._peers:
            self._heard[rank] = SimpleQueue()
            threading.Thread(target=self._listen, args=(rank,), daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()

    def _accepted(self, until: float) -> dict[int, _Peer]:
        found: dict[int, _Peer] = {}
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(self._address)
            listening.listen(self.size)
            while missing := [rank for rank in range(1, self.size) if rank not in found]:
                listening.settimeout(max(until - time.monotonic(), 0.01))
                try:
                    peer, _ = listening.accept()
                except TimeoutError:
                    late = f"rank {missing[0]} of {self.size} began no run within {LIMIT_S:.0f} s"
                    raise CannotDecide(f"{late}; expected the same tests in every rank", Code.PROCESS) from None
                if _is_ours(peer):
                    joined = _Peer(peer)
                    found[int(joined.stream.readline())] = joined
        return found

    def _joined(self, until: float) -> _Peer:
        while True:
            peer = socket.socket(socket.AF_UNIX)
            try:
                peer.connect(self._address)
            except ConnectionRefusedError:
                peer.close()
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)
                continue
            if not _is_ours(peer):
                raise PermissionError(0, "another user has their address")
            peer.sendall(b"%d\n" % self.rank)
            return _Peer(peer)

    def all(self, step: str, value: Any = None) -> list[Any]:
        """Raises EndedElsewhere if another rank ended the test; ends all ranks if they are at different steps."""
        said = self._exchanged(step, value)
        if len({(each["case"], each["step"]) for each in said}) > 1:
            failed = [_judgement(each) if each["step"] == _END else None for each in said]
            stopped = [each for each in failed if each is not None and each.verdict in FAILING]
            if not stopped or len({each["case"] for each in said}) > 1:
                places = ", ".join(f"rank {rank} {_place(each)}" for rank, each in enumerate(said))
                self.end_all(f"{places}; expected the same tests and calls in every rank")
            self._judgement, self._case = _joint(failed), ""
            if step != _END:
                raise EndedElsewhere(self._judgement)
        return [each["value"] for each in said]

    def start(self, step: str) -> None:
        at = self.same(step, time.monotonic_ns() + LEAD_NS)  # one clock for all processes of the host
        while time.monotonic_ns() < at:
            pass

    def begin_test(self, case: str) -> None:
        self._case, self._judgement = case, None
        self._step, self._until = "its beginning", time.monotonic() + LIMIT_S

    def end_test(self, case: str, judgement: Judgement | None, skip: str = "") -> Judgement | None:
        if self._judgement is None:
            self._case = case
            said = self.all(_END, [skip] if judgement is None else [judgement.verdict, judgement.reason])
            if self._judgement is None:
                found = [_judgement({"value": value}) for value in said]
                skipping = [rank for rank, each in enumerate(found) if each is None]
                if skipping and len(skipping) < self.size:
                    why = f"rank {skipping[0]} skips {case} ({said[skipping[0]][0]})"
                    self.end_all(f"{why}, and others do not; expected the same tests in every rank")
                self._judgement = None if skipping else _joint(found)
        joint, self._judgement = self._judgement, None
        self._case, self._until = "", float("inf")
        return joint

    def end_all(self, reason: str, details: str = "") -> None:
        if self._closed.is_set() or not self._peers:
            return
        self._ending.acquire()  # for good: one thread ends the process
        for rank in self._peers:
            self._send(rank, {"ended": reason})
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        with suppress(OSError):
            os.write(
                self._terminal, f"{details}\nnot measured: {one_line(reason)} [{Code.PROCESS}]\n".lstrip().encode()
            )
        os._exit(ExitCode.UNDECIDED)

    def finish(self) -> None:
        if self._closing or not self._peers:
            return
        self._closing = True
        self._exchanged("the end of the run", None)
        if self.rank:
            self._step, self._until = "the wait for rank 0's run file", time.monotonic() + LIMIT_S
            self._heard[0].get()
            self.close()

    def close(self) -> None:
        self._closed.set()
        for peer in self._peers.values():
            with suppress(OSError):
                peer.socket.shutdown(socket.SHUT_RDWR)  # to close its stream would wait for the thread that reads

    def _exchanged(self, step: str, value: Any) -> list[dict[str, Any]]:
        self._step, self._until = step, time.monotonic() + LIMIT_S
        said: Any = {"case": self._case, "step": step, "value": value}
        if self.rank == 0:
            said = [said, *(self._next(rank) for rank in range(1, self.size))]
            for rank in self._peers:
                self._send(rank, said)
        else:
            self._send(0, said)
            said = self._next(0)
        self._until = time.monotonic() + LIMIT_S if self._case else float("inf")
        return list(said)

    def _next(self, rank: int) -> Any:
        said = self._heard[rank].get()
        if said is None:
            self.end_all(self._lost(rank))
        return said

    def _send(self, rank: int, message: Any) -> None:
        with suppress(OSError, ValueError):  # it has ended, which ``_listen`` reports
            self._peers[rank].socket.sendall(json.dumps(message).encode() + b"\n")

    def _listen(self, rank: int) -> None:
        with suppress(OSError, ValueError):
            for line in self._peers[rank].stream:
                message = json.loads(line)
                if isinstance(message, dict) and "ended" in message:
                    self.end_all(message["ended"])
                self._heard[rank].put(message)
        if self._closing:  # the others may go first
            self._heard[rank].put(None)
        else:
            self.end_all(self._lost(rank))

    def _lost(self, rank: int) -> str:
        return f"rank {rank} of {self.size} ended before the others; its own output says why"

    def _watch(self) -> None:
        while not self._closed.wait(min(1.0, LIMIT_S)):
            if time.monotonic() > self._until:
                what = f"rank {self.rank}: {LIMIT_S:.0f} s passed at {self._step} of {self._case or 'the run'}"
                self.end_all(f"{what}; look for a collective that not every rank calls")


def _is_ours(peer: socket.socket) -> bool:
    """Whether a process of this user is at the other end."""
    of_peer = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", of_peer)[1] == os.geteuid())


def _place(said: Mapping[str, Any]) -> str:
    """Where a rank is, by its message, as a phrase."""
    if said["step"] == _END and len(said["value"]) == 1:
        return f"skips {said['case']} ({said['value'][0]})"
    return f"is at {said['step']} of {said['case'] or 'the run'}"


def _judgement(said: Mapping[str, Any]) -> Judgement | None:
    """The judgement in a message at the end of a test; None if the test was skipped."""
    return Judgement(Verdict(said["value"][0]), said["value"][1]) if len(said["value"]) == 2 else None


def _joint(judgements: Sequence[Judgement | None]) -> Judgement:
    """The judgement of the first rank at which a case is at fault, else is undecided, else that of rank 0."""
    known = [(rank, each) for rank, each in enumerate(judgements) if each is not None]
    for kind in (FAULTY, UNDECIDED):
        for rank, each in known:
            if each.verdict in kind:
                return Judgement(each.verdict, f"rank {rank}: {each.reason}")
    return known[0][1]
