"""Score peakgate against truth.csv: ``score.py PYTHON [--label L] [--only P ...] [--what check bench] [--minutes M]``.

Runs ``peakgate check`` (per family) and ``peakgate bench --device cpu`` (per project) with the environment of PYTHON, one
process at a time, each at low priority. What has been run for a label is kept in scores/LABEL/*.json and not run again;
delete a file to repeat it. Writes scores/LABEL.csv with a row per kernel and prints a table of counts.
"""
import argparse
import collections
import csv
import json
import os
import pathlib
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent


def run(python, arguments, project, target, limit):
    if target.exists():
        return
    tool = pathlib.Path(python).parent / "peakgate"
    command = [str(tool)] if tool.exists() else [python, "-m", "peakgate"]
    scratch = target.with_suffix(".out")
    start = time.monotonic()
    try:
        done = subprocess.run(["nice", *command, *arguments, "--json", "--out", str(scratch)], cwd=HERE / project, capture_output=True, text=True, timeout=limit)
        out, code, err = done.stdout, done.returncode, done.stderr[-3000:]
    except subprocess.TimeoutExpired as late:
        out, code, err = "", -1, f"timeout after {limit} s: {str(late.stderr)[-500:]}"
    try:
        document = json.loads(out)
    except ValueError:
        document = {}
    part = target.with_suffix(".part")
    part.write_text(json.dumps({"code": code, "seconds": round(time.monotonic() - start, 1), "document": document, "err": err}))
    part.rename(target)
    print(f"{time.strftime('%H:%M:%S')} {target.stem}: exit {code}, {time.monotonic() - start:.0f} s", flush=True)


def chunks(truth, only):
    seen = dict.fromkeys((t["project"], t["case"].split(".")[0]) for t in truth)
    for project in dict.fromkeys(p for p, _ in seen):
        if only and project not in only:
            continue
        yield "bench", project, "", ["bench", "--device", "cpu"]
        for p, family in seen:
            if p == project and (HERE / p / "kernels" / family).is_dir():
                yield "check", project, family, ["check", f"kernels/{family}/family.py", "--jobs", "1"]


def judged(folder, truth):
    checks, benches = {}, {}
    for file in folder.glob("*.json"):
        document = json.loads(file.read_text())["document"]
        project = file.stem.split("+")[1]
        for k in document.get("kernels", []):
            found = [d["what"] for d in k["defects"]]
            state = "WRONG" if found else "undecided" if k.get("not_checked") or k.get("skipped") else "right"
            checks[project, k["kernel"]] = state, (found or [k.get("not_checked") or k.get("skipped") or ""])[0]
        for c in document.get("cases", []):
            state = "right" if c["verdict"] in ("NO_FLOOR", "PASS") else "undecided" if c["verdict"] in ("INCONCLUSIVE", "INCOMPARABLE") else "WRONG"
            benches.setdefault(project, []).append((c["case"], state, c["reason"] or ""))
    for t in truth:
        check = checks.get((t["project"], t["case"]), ("", ""))
        bench = next(((s, r) for case, s, r in benches.get(t["project"], []) if case == t["case"] or case.startswith(t["case"] + "-")), ("", ""))
        states = [s for s, _ in (check, bench) if s]
        wrong = "WRONG" in states
        if not states:
            outcome = "not run"
        elif t["truth"] == "wrong":
            outcome = "caught" if wrong else "undecided" if "undecided" in states else "missed"
        else:
            outcome = "false" if wrong else "undecided" if "undecided" in states else "right"
        yield {**t, "check": check[0], "bench": bench[0], "outcome": outcome, "check_says": check[1][:300], "bench_says": bench[1][:300] if bench[0] != "right" else ""}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("python")
    parser.add_argument("--label", default="baseline")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--what", nargs="*", default=["check", "bench"])
    parser.add_argument("--minutes", type=float, default=1e9, help="begin nothing after so long")
    parser.add_argument("--limit", type=float, default=1800, help="seconds for one command")
    given = parser.parse_args()
    with open(HERE / "truth.csv") as file:
        truth = list(csv.DictReader(file))
    folder = HERE / "scores" / given.label
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * given.minutes
    for what in given.what:
        for kind, project, family, arguments in chunks(truth, given.only):
            if kind == what and time.monotonic() < end:
                run(os.path.abspath(given.python), arguments, project, folder / f"{kind}+{project}+{family}.json", given.limit)
    table = list(judged(folder, truth))
    with open(folder.with_suffix(".csv"), "w", newline="") as file:
        writer = csv.DictWriter(file, table[0].keys())
        writer.writeheader()
        writer.writerows(table)
    counts = collections.defaultdict(collections.Counter)
    for row in table:
        for where in (row["operation"], "all"):
            counts[where][row["truth"]] += 1
            counts[where][row["outcome"]] += 1
            for tool in ("check", "bench"):
                counts[where][f"{tool} caught"] += row["truth"] == "wrong" and row[tool] == "WRONG"
                counts[where][f"{tool} false"] += row["truth"] == "honest" and row[tool] == "WRONG"
    columns = ["wrong", "caught", "missed", "check caught", "bench caught", "honest", "right", "false", "check false", "bench false", "undecided", "not run"]
    print(f"{'':12}" + "".join(f"{c:>14}" for c in columns))
    for where, count in counts.items():
        print(f"{where:12}" + "".join(f"{count[c]:14}" for c in columns))


if __name__ == "__main__":
    main()
