// shared_limited: out = in * in, one float per thread, with more shared memory allocated than used.
//
// The dynamic shared memory of the launch decides how many blocks fit on a SM, from all its warps down to one block.
// One float per thread needs every warp there is: expect bandwidth to fall in step with occupancy. A thread uses one
// slot of its own, so no barrier is needed.

extern "C" __global__ void shared_limited(float* __restrict__ out, const float* __restrict__ in, size_t n) {
    extern __shared__ float slots[];
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        slots[threadIdx.x] = in[i];
        out[i] = slots[threadIdx.x] * slots[threadIdx.x];
    }
}
