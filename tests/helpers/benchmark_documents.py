"""What nvbench and Google Benchmark write, as far as `import` reads it."""

from __future__ import annotations

from typing import Any


def summary(tag: str, **values: object) -> dict[str, Any]:
    return {
        "tag": tag,
        "data": [{"name": name, "type": "string", "value": str(given)} for name, given in values.items()],
    }


def state(*summaries: dict[str, Any], elements: int = 1024, **more: object) -> dict[str, Any]:
    axes = [
        {"name": "T", "type": "string", "value": "I32"},
        {"name": "Elements", "type": "int64", "value": str(elements)},
    ]
    return {"name": "x", "device": 0, "axis_values": axes, "summaries": list(summaries), "is_skipped": False} | more


def nvbench(*states: dict[str, Any], argv: tuple[str, ...] = ("bench",)) -> dict[str, Any]:
    device = {
        "id": 0,
        "name": "NVIDIA H200",
        "sm_version": 900,
        "number_of_sms": 132,
        "global_memory_bus_bandwidth": 4_814_000_000_000,
    }
    return {
        "meta": {"argv": list(argv), "version": {"nvbench": {"string": "0.3.0"}}},
        "devices": [device],
        "benchmarks": [{"name": "cub.bench.scan", "states": list(states)}],
    }


MEAN = summary("nv/cold/time/gpu/mean", value=100e-6)
RATE = summary("nv/cold/bw/global/bytes_per_second", value=3.6e12)
SHARE = summary("nv/cold/bw/global/utilization", value=0.75)
COUNT = summary("nv/cold/sample_size", value=40)


def google(*benchmarks: dict[str, Any]) -> dict[str, Any]:
    return {"context": {"date": "2026-11-01T10:00:00+01:00", "library_version": "v1.9"}, "benchmarks": list(benchmarks)}
