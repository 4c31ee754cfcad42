"""Times variants of an SGEMM kernel beside cuBLAS, and transposes beside copies: `sweep.py FOLDER [gemm] [transpose] [one NAME SIDE]`.

Every sample: L2 flushed, events around one launch; groups of samples of all variants take turns. SM clock and power are
read by NVML while a group runs. Results are compared with cuBLAS (relative Frobenius norm).
"""

import json
import re
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
INCLUDE = re.compile(r'^\s*#include\s+"([^"]+)"', re.M)
PLAN = ((1024, 4, 8, 99), (4096, 4, 3, 99), (2048, 4, 5, 99), (3072, 3, 4, 99), (1536, 4, 6, 99), (8192, 3, 2, 99), (16384, 2, 2, 99), (6144, 3, 2, 99), (12288, 2, 2, 99))
VARIANTS = json.loads((HERE / "variants.json").read_text())


def inlined(path, seen):
    path = path.resolve()
    if path in seen:
        return ""
    seen.add(path)
    text = path.read_text().replace("#pragma once", "")
    return INCLUDE.sub(lambda m: inlined(path.parent / m.group(1), seen), text)


def compile_one(job):
    name, source, options = job
    from cuda.bindings import nvrtc

    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"k.cu", 0, [], [])
    options = [b"--gpu-architecture=sm_90", b"--std=c++17", b"--device-as-default-execution-space", *(o.encode() for o in options)]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if status:
        _, size = nvrtc.nvrtcGetProgramLogSize(program)
        log = b" " * size
        nvrtc.nvrtcGetProgramLog(program, log)
        return name, None, log.decode()[:300]
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    cubin = b" " * size
    nvrtc.nvrtcGetCUBIN(program, cubin)
    return name, cubin, ""


def jobs(kind, only=None):
    for v in VARIANTS[kind]:
        if only and v["name"] != only:
            continue
        source = inlined(ROOT / v["source"] if "/" in v["source"] else HERE / v["source"], set())
        yield v["name"], source, [f"-D{a}={b}" for a, b in v.get("defines", {}).items()] + v.get("options", [])


class Nvml:
    def __init__(self):
        import pynvml

        self.nv = pynvml
        pynvml.nvmlInit()
        self.handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        self.log = []
        threading.Thread(target=self.poll, daemon=True).start()

    def poll(self):
        while True:
            clock = self.nv.nvmlDeviceGetClockInfo(self.handle, self.nv.NVML_CLOCK_SM)
            self.log.append((time.perf_counter(), clock, self.nv.nvmlDeviceGetPowerUsage(self.handle) / 1000))
            time.sleep(0.004)

    def between(self, begin, end):
        part = [x for x in self.log if begin <= x[0] <= end] or self.log[-1:]
        return min(x[1] for x in part), max(x[2] for x in part)


class Bench:
    def __init__(self, out):
        import cupy as cp

        self.cp = cp
        self.out = out
        self.dev = cp.cuda.Device()
        self.junk = cp.empty(1 << 28, dtype=cp.uint8)
        self.nvml = Nvml()

    def build(self, kind, only=None):
        cp = self.cp
        begin = time.time()
        todo = list(jobs(kind, only))
        if only:
            done = [compile_one(j) for j in todo]
        else:
            with ProcessPoolExecutor(14) as pool:
                done = list(pool.map(compile_one, todo))
        self.kernels = {}
        for v in VARIANTS[kind]:
            for name, cubin, log in done:
                if name != v["name"]:
                    continue
                if cubin is None:
                    print("no build", name, log)
                    continue
                path = self.out / f"{name}.cubin.tmp"
                path.write_bytes(cubin)
                kernel = cp.RawModule(path=str(path)).get_function(v.get("entry", "sgemm"))
                path.unlink()
                if v.get("shared", 0) > 48 << 10:
                    kernel.max_dynamic_shared_size_bytes = v["shared"]
                self.kernels[name] = (kernel, v)
        print(f"built {len(self.kernels)} in {time.time() - begin:.1f} s", flush=True)

    def samples(self, launch, count):
        cp = self.cp
        times = []
        begin = time.perf_counter()
        events = []
        for _ in range(count):
            self.junk.fill(0)
            a, b = cp.cuda.Event(), cp.cuda.Event()
            a.record()
            launch()
            b.record()
            events.append((a, b))
        self.dev.synchronize()
        times = [cp.cuda.get_elapsed_time(a, b) * 1e3 for a, b in events]
        return times, self.nvml.between(begin, time.perf_counter())

    def table(self, launches, rounds, count, label, rate, file):
        got = {name: ([], [], []) for name in launches}
        for launch in launches.values():
            launch()
        for _ in range(rounds):
            for name, launch in launches.items():
                times, (clock, power) = self.samples(launch, count)
                got[name][0].extend(times)
                got[name][1].append(clock)
                got[name][2].append(power)
        for name, (times, clocks, powers) in sorted(got.items(), key=lambda x: statistics.median(x[1][0])):
            middle = statistics.median(times)
            line = f"{label},{name},{middle:.2f},{min(times):.2f},{rate / middle:.3f},{min(clocks)},{max(powers):.0f},{len(times)}"
            print(line, file=file, flush=True)
            print(line, flush=True)
        return {name: statistics.median(x[0]) for name, x in got.items()}

    def launcher(self, name, c, a, b, m, n, k):
        import numpy as np

        kernel, v = self.kernels[name]
        args = (c, a, b, np.int32(m), np.int32(n), np.int32(k))
        if v.get("alpha"):
            args += (np.float32(1),)
        grid = (n // v.get("cols", 256), m // v.get("rows", 128))
        if v.get("persistent"):
            if not hasattr(self, "partial"):
                self.partial = self.cp.empty(132 * 128 * 256, self.cp.float32)
                self.flags = self.cp.zeros(1024, self.cp.uint32)
            args = (c, a, b, self.partial, self.flags, np.int32(m), np.int32(n), np.int32(k))
            grid = (v["persistent"], 1)
        return lambda: kernel(grid, (v.get("threads", 256),), args, shared_mem=v["shared"])

    def blas(self, c, a, b, n):
        import numpy as np
        from cupy_backends.cuda.libs import cublas

        handle = self.cp.cuda.device.get_cublas_handle()
        cublas.setMathMode(handle, 2)  # pedantic
        one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
        return lambda: cublas.sgemm(handle, 0, 0, n, n, n, one.ctypes.data, b.data.ptr, n, a.data.ptr, n, zero.ctypes.data, c.data.ptr, n)

    def inputs(self, n):
        cp = self.cp
        cp.random.seed(7)
        a = cp.random.random((n, n), dtype=cp.float32) * 2 - 1
        b = cp.random.random((n, n), dtype=cp.float32) * 2 - 1
        return a, b, cp.empty_like(a), cp.empty_like(a)

    def gemm(self):
        cp = self.cp
        self.build("sgemm")
        wrong = set()
        best = {}
        with (self.out / "sgemm.csv").open("w") as file:
            print("side,variant,median_us,min_us,tflops,min_sm_mhz,max_w,samples", file=file)
            for n, rounds, count, most in PLAN:
                names = [x for x in self.kernels if n in self.kernels[x][1].get("sides", (n,)) and x not in wrong]
                kept = []
                for kind in sorted({self.kernels[x][1].get("entry", "sgemm") for x in names}):
                    same = [x for x in names if self.kernels[x][1].get("entry", "sgemm") == kind]
                    ranked = sorted((x for x in same if x in best), key=best.get) if len(same) > most else same
                    kept += ranked[:most] + [x for x in same if self.kernels[x][1].get("always") and x not in ranked[:most]]
                a, b, c, d = self.inputs(n)
                blas = self.blas(c, a, b, n)
                blas()
                launches = {"cublas": blas}
                scale = float(cp.abs(c).max()) + 1e-30
                for name in kept:
                    launch = self.launcher(name, d, a, b, n, n, n)
                    d.fill(float("nan"))
                    launch()
                    error = float(cp.abs(cp.subtract(c, d, out=d)).max()) / scale
                    if not error < 1e-4:
                        print("WRONG", n, name, error, flush=True)
                        wrong.add(name)
                        continue
                    launches[name] = launch
                middle = self.table(launches, rounds, count, n, 2 * n**3 / 1e6, file)
                if n in (4096, 8192):
                    best = {name: value for name, value in middle.items() if name != "cublas"} 
                del a, b, c, d, launches, launch, blas
                cp.get_default_memory_pool().free_all_blocks()

    def transpose(self):
        import numpy as np

        cp = self.cp
        self.build("transpose")
        with (self.out / "transpose.csv").open("w") as file:
            print("side,variant,median_us,min_us,gbs,min_sm_mhz,max_w,samples", file=file)
            for n in (8192, 16384):
                a = cp.random.random((n, n), dtype=cp.float32)
                b = cp.empty_like(a)
                launches = {"memcpy": lambda: cp.cuda.runtime.memcpyAsync(b.data.ptr, a.data.ptr, 4 * n * n, 3, 0)}
                for name, (kernel, v) in self.kernels.items():
                    threads = v.get("threads", 256)
                    if v.get("copy"):
                        each = v["copy"]
                        grid = (n * n // 4 // threads // each,)
                        args = (b, a, np.uint64(n * n))
                    else:
                        x, y = v.get("tile", (64, 64))
                        grid = (n // y, n // x) if v.get("down", True) else (n // x, n // y)
                        grid = (v["persistent"],) if v.get("persistent") else (grid[0] * grid[1],) if v.get("flat") else grid
                        args = (b, a, np.int32(n), np.int32(n))
                    launch = lambda k=kernel, g=grid, t=threads, r=args, s=v.get("shared", 0): k(g, (t,), r, shared_mem=s)
                    b.fill(float("nan"))
                    launch()
                    if not bool((b == (a if v.get("copy") else a.T)).all()):
                        print("WRONG", n, name, flush=True)
                        continue
                    launches[name] = launch
                self.table(launches, 5, 8, n, 8 * n * n / 1e3, file)
                del a, b, launches
                cp.get_default_memory_pool().free_all_blocks()

    def one(self, name, side):
        a, b, c, d = self.inputs(side)
        if name == "cublas":
            launch = self.blas(c, a, b, side)
        else:
            self.build("sgemm", name)
            launch = self.launcher(name, d, a, b, side, side, side)
        launch()
        self.dev.synchronize()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    words = sys.argv[2:]
    if words[:1] == ["one"]:
        Bench(folder).one(words[1], int(words[2]))
    else:
        bench = Bench(folder)
        for word in words:
            begin = time.time()
            getattr(bench, word)()
            print(f"# {word}: {time.time() - begin:.1f} s", flush=True)
