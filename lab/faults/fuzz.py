"""Passes malformed files to every reader: ``nox -s fuzz -- [--seed TEXT] [--inputs N] [READER ...]``.

The default seed is the day's date, so that every day has other inputs; the record has it and the commit. Input NUMBER
of a reader is the same in every run of a seed: ``--seed TEXT --input NUMBER READER`` repeats one and shows its
traceback.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from peakgate.base.files import write_whole

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))

import fuzz_readers  # noqa: E402  # a module of the tests

from lab.records import checked_out  # noqa: E402

WHOLE = sum(reader.inputs for reader in fuzz_readers.READERS.values())
MEMORY = Path("/dev/shm")  # noqa: S108  # files that are never synced to a disk


def main() -> int:
    """Fuzz the named readers, or all; exit code 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", default=datetime.now(UTC).date().isoformat(), help="of all inputs (default: today)")
    parser.add_argument("--inputs", type=int, default=WHOLE, help=f"of all readers together (default: {WHOLE})")
    parser.add_argument("--input", type=int, help="repeat this one input")
    parser.add_argument("--record", type=Path, metavar="FILE", help="also keep the counts there, as JSON")
    parser.add_argument("readers", nargs="*", metavar="READER", help=f"of {', '.join(fuzz_readers.READERS)}")
    options = parser.parse_args()
    options.record = options.record and options.record.absolute()  # the readers change the working directory
    chosen = options.readers or list(fuzz_readers.READERS)
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        fuzz_readers.prepare(Path(name))
        if options.input is not None:
            return fuzz_readers.READERS[chosen[0]].repeat(f"{options.seed}{chosen[0]}", options.input, Path(name))
        commits = dict.fromkeys(chosen, checked_out())
        record: dict[str, Any] = {"seed": options.seed, "inputs": 0, "commits": commits, "readers": {}, "findings": {}}
        for reader in chosen:
            codes = Counter[str]()
            for number in range(fuzz_readers.READERS[reader].inputs * options.inputs // WHOLE):
                code, wrong = fuzz_readers.attempt(reader, number, Path(name), options.seed)
                codes["finding" if code is None else f"exit {int(code)}"] += 1
                record["inputs"] += 1
                if wrong:
                    record["findings"].setdefault(f"{reader}: {wrong}", number)
            record["readers"][reader] = dict(sorted(codes.items()))
            sys.stdout.write(f"{reader}: {sum(codes.values())} inputs, {dict(sorted(codes.items()))}\n")
            sys.stdout.flush()
        os.chdir(ROOT)
    if options.record:
        write_whole(options.record, json.dumps(record, indent=1) + "\n")
    sys.stdout.write(f"{record['inputs']} hostile inputs, {len(record['findings'])} findings\n")
    for wrong, number in record["findings"].items():
        sys.stdout.write(f"input {number} of {wrong}\n")
    return 1 if record["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
