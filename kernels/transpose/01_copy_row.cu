// copy_row: copies rows to rows, one float per thread: the traffic of a transpose without its scattered accesses.
//
// Textbooks use this copy as the upper bound of a transpose. On a modern GPU it is no bound: one float per thread puts
// too few bytes in flight, and later stages of this folder are faster. The real upper bound is a float4 copy or a
// memcpy of the same size.

extern "C" __global__ void copy_row(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < nx && y < ny) {
        out[(size_t)y * nx + x] = in[(size_t)y * nx + x];
    }
}
