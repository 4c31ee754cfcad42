// square: every value times itself, in place.
//
// Nothing but its block size limits how many threads fit, so it shows how good the proposed block size is, which
// cuOccupancyMaxPotentialBlockSize gives: the largest of those with the most resident threads. Any size that fills the
// SM should do within a few percent; very large blocks start and end together and leave the SM emptier between two of
// them.

extern "C" __global__ void square(float* __restrict__ values, size_t n) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        values[i] *= values[i];
    }
}
