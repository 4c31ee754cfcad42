"""Fill the sentence on waiting in docs/how-to/programs.md from the record: ``python -m lab.latency.page``."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.pages import ROOT, fill_page, read_json

PAGE = ROOT / "docs" / "how-to" / "programs.md"
STARTS = ("check_s", "check_json_s", "python_pass_s")


def blocks() -> dict[str, str]:
    """Medians of `check` and of a Python that does nothing, their ratio, and the plans."""
    found: dict[str, Any] = read_json(Path(__file__).with_name("latency.json"))
    wall, processor = ({name: _median(found[name], at) for name in STARTS} for at in (0, 1))
    (cold, cold_cpu), (warm, warm_cpu) = found["plan_cold_s"], found["plan_warm_s"]
    machine = found["machine"]
    return {
        "latency": f"`check --json` of the kernel that `init` writes takes {processor['check_json_s']:.2f} s of "
        f"processor time once it is compiled, and {wall['check_json_s'] / wall['python_pass_s']:.0f} times as long as "
        f"`python -c pass`: {wall['check_json_s']:.2f} s beside {wall['python_pass_s']:.3f} s, medians of "
        f"{len(found['check_s'])} starts in turns. `ab --plan` of {found['kernels']} unchanged kernels takes "
        f"{cold_cpu:.1f} s of processor time with an empty cache and {warm_cpu:.1f} s with a full one ({cold:.0f} s "
        f"and {warm:.0f} s). {machine['processor']}, {machine['cores']} cores, at a load average of "
        f"{machine['load_average']:.0f}, Python {machine['python']}."
    }


def _median(pairs: Sequence[Sequence[float]], at: int) -> float:
    return statistics.median(each[at] for each in pairs)


if __name__ == "__main__":
    fill_page(PAGE, blocks())
