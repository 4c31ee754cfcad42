#!/bin/bash
# Five changes of a small project, each judged whole by `peakgate gate` on a GPU: an honest one, one that is slower, a wrong
# one, one whose family would patch the harness, and a new kernel. Run at the root of a checkout, in an environment that
# has the tool installed: `OUT=folder bash lab/faults/gates.sh`. Exit code 0 where every gate ends as expected; each leaves
# its verdict in OUT. What an H200 gave is in gates-*.json.
set -u
here=$(pwd); python=${PYTHON:-python}; work=$(mktemp -d); out=${OUT:-$work/results}; mkdir -p "$out"; failed=0
export GIT_AUTHOR_NAME=T GIT_AUTHOR_EMAIL=t@example.org GIT_COMMITTER_NAME=T GIT_COMMITTER_EMAIL=t@example.org; cd "$work"
git init -q --initial-branch=main origin && cd origin
mkdir -p kernels/twice
cat > peakgate.toml < /dev/null
cat > kernels/twice/twice.cu <<'K'
extern "C" __global__ void twice(float* out, const float* in, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * in[i];
}
K
cat > kernels/twice/family.py <<'K'
from peakgate.family import In, Out, Value, kernel
FAMILY = kernel("twice.cu", sizes=[1 << 24], arguments=lambda n: [Out(n), In(n), Value(n)], grid=lambda n: -(-n // 256),
                block=256, bytes=lambda n: 8 * n, reference=lambda xp, given: 2 * given)
K
git add -A && git commit -qm base && cd .. && git clone -q origin clone && cd clone
judge() {  # NAME EXPECTED: the working tree as a commit on top of main
    git add -A && git commit -qm "$1" && head=$(git rev-parse HEAD)
    (cd "$here" && $python -P -m peakgate gate origin/main "$head" --repository "$work/clone" --device gpu:0 --explain --out "$out/$1") > "$out/$1.log" 2>&1
    code=$?; echo "$1: exit $code, expected $2"; tail -8 "$out/$1.log"; [ "$code" = "$2" ] || failed=1
    git checkout -q --detach origin/main
}
sed -i 's/2.0f \* in/in[i] + in/' kernels/twice/twice.cu; judge honest 0
sed -i 's/if (i < n)/for (int k = 0; k < 3; ++k) __nanosleep(2000); if (i < n)/' kernels/twice/twice.cu; judge slower 1
sed -i 's/2.0f/3.0f/' kernels/twice/twice.cu; judge wrong 1
cat >> kernels/twice/family.py <<'K'
import sys
if "peakgate.session.prover" in sys.modules:  # never true: another process imports this file
    import peakgate.session.prover as session
    session.check = lambda *a: __import__("peakgate.judge.correctness").judge.correctness.Check(0.0, 0.0, None)
K
sed -i 's/2.0f/3.0f/' kernels/twice/twice.cu; judge forged 1
mkdir -p kernels/thrice && sed 's/twice/thrice/g; s/2 \* given/3 * given/' kernels/twice/family.py > kernels/thrice/family.py
sed 's/twice/thrice/; s/2.0f/3.0f/' kernels/twice/twice.cu > kernels/thrice/thrice.cu; judge new-case 0
exit $failed
