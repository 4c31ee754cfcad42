// square: squares every value in place, with the block size that the occupancy API proposes and with others.
//
// Only the block size limits how many threads are resident, so the stage shows how good the proposed block size is
// (that of cuOccupancyMaxPotentialBlockSize: the largest block among those with the most resident threads). Any size
// that fills the SM should come within a few percent of it; the warps of very large blocks start and end together,
// which leaves the SM emptier between two blocks.

extern "C" __global__ void square(float* __restrict__ values, size_t n) {
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        values[i] *= values[i];
    }
}
