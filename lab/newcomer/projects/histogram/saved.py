"""Write the inputs and the expected bins of both sizes."""

from pathlib import Path

import numpy as np

for n in (4099, 1 << 20):
    index = np.random.default_rng(n).integers(0, 256, n, dtype="int32")
    folder = Path(__file__).parent / "kernels" / "histogram"
    np.save(folder / f"index-{n}.npy", index)
    np.save(folder / f"bins-{n}.npy", np.bincount(index, minlength=256).astype("uint32"))
