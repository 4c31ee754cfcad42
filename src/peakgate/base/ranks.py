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

from peakgate.base.errors import Code, PeakgateError
from peakgate.base.formatting import one_line
from peakgate.base.verdict import FAILING, FAULTY, UNDECIDED, ExitCode, Judgement, Verdict

WAIT_LIMIT_S = 300.0
"""The longest time between two exchanges of a benchmark test, and the longest wait for another rank."""

LEAD_NS = 1_000_000
"""From the arrival of the last rank to a common start: longer than messages take."""

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT")
"""The variables of torchrun by which ranks find each other."""

_END = "the end"


class EndedElsewhere(BaseException):
    """Another rank ended the test, with the verdict in the message. No ``Exception``, so that no test catches it."""


class Ranks:
    """The ranks of a run: this one's number ``rank``, and its number ``local`` on this host, of ``size``.

    A run in one process has one rank, which waits for nobody. ``uuids`` are those of the GPUs of several.
    """

    uuids: Sequence[str | None] = ()

    def __init__(self, rank: int = 0, size: int = 1, local: int = 0, port: int = 0) -> None:
        self.rank, self.size, self.local = rank, size, local
        self._address = f"\0peakgate-ranks-{os.getuid()}-{port}"  # no file: it ends with its process
        self._peers: dict[int, socket.socket] = {}
        self._heard: dict[int, SimpleQueue[Any]] = {}
        self._terminal, self._case, self._step, self._until = 2, "", "its start", float("inf")
        self._finishing, self._closed, self._ending = False, threading.Event(), threading.Lock()
        self._joint: Judgement | None = None

    def connect(self) -> None:
        """Connect all ranks. Raises PeakgateError if another run has their address."""
        self._terminal = os.dup(2)  # while a test runs, pytest captures 2
        self._until = time.monotonic() + WAIT_LIMIT_S
        threading.Thread(target=self._watch, daemon=True).start()
        try:
            if self.rank == 0:
                with socket.socket(socket.AF_UNIX) as listening:
                    listening.bind(self._address)
                    listening.listen(self.size)
                    while missing := [rank for rank in range(1, self.size) if rank not in self._peers]:
                        self._step = f"the wait for rank {missing[0]}"
                        peer, _ = listening.accept()
                        if _is_ours(peer):
                            self._hear(int.from_bytes(peer.recv(4)), peer)
            else:
                self._join()
        except OSError as error:
            self._closed.set()
            raise PeakgateError(
                f"rank {self.rank} cannot connect ({error.strerror}); give each torchrun a --master-port of its own",
                Code.OPTION,
            ) from None

    def _join(self) -> None:
        while True:
            peer = socket.socket(socket.AF_UNIX)
            with suppress(ConnectionRefusedError):  # rank 0 is not there yet
                peer.connect(self._address)
                if _is_ours(peer):
                    peer.sendall(self.rank.to_bytes(4))
                    return self._hear(0, peer)
            peer.close()
            time.sleep(0.02)

    def _hear(self, rank: int, peer: socket.socket) -> None:
        self._peers[rank], self._heard[rank] = peer, SimpleQueue()
        threading.Thread(target=self._listen, args=(rank,), daemon=True).start()

    def all(self, step: str, value: Any = None) -> list[Any]:
        """The values of all ranks, which JSON can represent; waits until each is at this step.

        Raises EndedElsewhere if another rank ended the test. If ranks are at different steps, all are ended.
        """
        if self.size == 1:
            return [value]
        said = self._exchanged(step, value)
        places = [_place(each) for each in said]
        if len({*places}) > 1:
            ended = [each["value"] if each["step"] == _END else ("", "") for each in said]
            if len({each["case"] for each in said}) > 1 or not any(verdict in FAILING for verdict, _ in ended):
                where = ", ".join(f"rank {rank} {place}" for rank, place in enumerate(places))
                self.end_all(f"{where}; expected the same tests and calls in every rank")
            self._joint = _joint(ended)
            if step != _END:
                raise EndedElsewhere(f"{self._joint.verdict} {self._case}: {self._joint.reason}")
        return [each["value"] for each in said]

    def same(self, step: str, value: Any) -> Any:
        """The value of rank 0."""
        return self.all(step, value)[0]

    def any(self, step: str, value: object) -> bool:
        """Whether the value of any rank is true."""
        return any(self.all(step, bool(value)))

    def start(self, step: str) -> None:
        """Return at the same moment in all ranks."""
        if self.size > 1:
            at = max(self.all(step, time.monotonic_ns() + LEAD_NS))  # one clock for all processes of the host
            time.sleep(max(0, at - LEAD_NS // 4 - time.monotonic_ns()) / 1e9)  # leaves the processor to the others
            while time.monotonic_ns() < at:
                pass

    def begin_test(self, case: str) -> None:
        """Begin a benchmark test; until its end, no two exchanges may be further apart than ``WAIT_LIMIT_S``."""
        self._case, self._step, self._until = case, "its beginning", time.monotonic() + WAIT_LIMIT_S

    def end_test(self, case: str, own: Judgement | None) -> Judgement | None:
        """The judgement of all ranks on a test, from each one's own; None if it was skipped, in all of them.

        It is that of the first rank at which the case is at fault, else is undecided, else that of rank 0.
        """
        if self.size == 1:
            return own
        if self._joint is None:
            self._case = case
            said = self.all(_END, (own.verdict, own.reason) if own else (None, ""))
            self._joint = self._joint or (_joint(said) if own else None)
        joint, self._joint = self._joint, None
        self._case, self._until = "", float("inf")
        return joint

    def end_all(self, reason: str, details: str = "") -> None:
        """End the processes of all ranks, if there are several; only this one prints the ``details``."""
        if self.size == 1 or self._closed.is_set():
            return
        self._ending.acquire()  # for good: one thread ends the process
        for rank in [*self._peers]:
            self._send(rank, {"ended": reason})
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        with suppress(OSError):
            line = f"not measured: {one_line(reason)} [{Code.PROCESS}]\n"
            os.write(self._terminal, "\n".join(["", *([details] if details else []), line]).encode())
        os._exit(ExitCode.UNDECIDED)

    def finish(self) -> None:
        """Wait until all ranks have run their tests; others than rank 0 also wait until that one disconnects.

        A launcher that sees one process fail ends the others: that must not stop rank 0 from writing the run file.
        """
        if not self._peers or self._finishing:
            return
        self._finishing = True
        self._exchanged("the end of the run", None)
        if self.rank:
            self._step, self._until = "the wait for rank 0's run file", time.monotonic() + WAIT_LIMIT_S
            self._heard[0].get()
            self.close()

    def close(self) -> None:
        """Disconnect; without ``finish`` before it, this ends the other ranks."""
        self._closed.set()
        for peer in self._peers.values():
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)

    def _exchanged(self, step: str, value: Any) -> list[dict[str, Any]]:
        self._step, self._until = step, time.monotonic() + WAIT_LIMIT_S
        said: Any = {"case": self._case, "step": step, "value": value}
        if self.rank == 0:
            said = [said, *(self._next(rank) for rank in range(1, self.size))]
            for rank in self._peers:
                self._send(rank, said)
        else:
            self._send(0, said)
            said = self._next(0)
        self._until = time.monotonic() + WAIT_LIMIT_S if self._case else float("inf")
        return list(said)

    def _next(self, rank: int) -> Any:
        if (said := self._heard[rank].get()) is None:
            self.end_all(self._lost(rank))
        return said

    def _send(self, rank: int, message: Any) -> None:
        with suppress(OSError):  # it has ended, which ``_listen`` reports
            self._peers[rank].sendall(json.dumps(message).encode() + b"\n")

    def _listen(self, rank: int) -> None:
        with suppress(OSError), self._peers[rank].makefile("rb") as lines:
            for line in lines:
                message = json.loads(line)
                if "ended" in message:
                    self.end_all(message["ended"])
                self._heard[rank].put(message)
        if not self._finishing:
            self.end_all(self._lost(rank))
        self._heard[rank].put(None)

    def _lost(self, rank: int) -> str:
        return f"rank {rank} of {self.size} ended before the others; its own output says why"

    def _watch(self) -> None:
        while not self._closed.wait(min(1.0, WAIT_LIMIT_S)):
            if time.monotonic() > self._until:
                what = f"rank {self.rank}: {WAIT_LIMIT_S:.0f} s passed at {self._step} of {self._case or 'the run'}"
                self.end_all(f"{what}; look for a test or a collective that not every rank reaches")


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
        raise PeakgateError(
            f"{', '.join(f'{name}={value}' for name, value in given.items())}; expected the variables of "
            "`torchrun --nproc-per-node N` for processes of one host",
            Code.OPTION,
        )
    return Ranks(rank, size, local, port)


def _is_ours(peer: socket.socket) -> bool:
    """Whether a process of this user is at the other end."""
    of_peer = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", of_peer)[1] == os.geteuid())


def _place(said: Mapping[str, Any]) -> str:
    """Where a rank is, by its message, as a phrase."""
    if said["step"] == _END and said["value"][0] is None:
        return f"skips {said['case']}"
    return f"is at {said['step']} of {said['case'] or 'the run'}"


def _joint(of_each: Sequence[Sequence[str]]) -> Judgement:
    """The judgement of all ranks, from the verdict and reason of each."""
    for kind in (FAULTY, UNDECIDED):
        for rank, (verdict, reason) in enumerate(of_each):
            if verdict in kind:
                return Judgement(Verdict(verdict), f"rank {rank}: {reason}")
    return next(Judgement(Verdict(verdict), reason) for verdict, reason in of_each if verdict)
