// shared_limited: out = in * in, one float per thread, with more shared memory allocated than used to limit occupancy.
//
// The dynamic shared memory of the launch decides how many blocks are resident on an SM, from the most that it can hold
// down to one. With one float per thread every resident warp counts: expect bandwidth to fall in proportion to
// occupancy. Each thread uses an element of its own in shared memory, so no barrier is needed.

extern "C" __global__ void shared_limited(float* __restrict__ out, const float* __restrict__ in, size_t n) {
    extern __shared__ float slots[];
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        slots[threadIdx.x] = in[i];
        out[i] = slots[threadIdx.x] * slots[threadIdx.x];
    }
}
