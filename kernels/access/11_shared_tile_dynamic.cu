// shared_tile_dynamic: shared_tile_row_col with the shape and padding of the tile chosen at launch.
//
// Dynamic shared memory is one array of bytes, so the kernel computes rows and columns itself: pitch = columns + pad.
// One build serves every shape, where shared_tile_row_col needs a build for each. The divisors are now known at run
// time only: some tens of instructions per thread, which the loads hide. Expect the speed of the static tile with the
// same padding.

extern "C" __global__ void shared_tile_dynamic(float* __restrict__ out, const float* __restrict__ in, size_t n,
                                               int pad) {
    extern __shared__ float tile[];
    const unsigned pitch = blockDim.x + pad;
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    const size_t i = (size_t)blockIdx.x * (blockDim.x * blockDim.y) + thread;
    tile[threadIdx.y * pitch + threadIdx.x] = i < n ? in[i] : 0;
    __syncthreads();
    if (i < n) {
        out[i] = tile[thread % blockDim.y * pitch + thread / blockDim.y];
    }
}
