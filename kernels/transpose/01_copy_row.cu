// copy_row: no transpose, only its easy half: reads rows and writes rows, one float per thread.
//
// The textbook upper bound for a transpose. On a modern GPU it bounds nothing: one float per thread has too few bytes
// in flight, and the later stages here overtake it. The true roof is a float4 copy or memcpy of the same size.

extern "C" __global__ void copy_row(float* __restrict__ out, const float* __restrict__ in, int nx, int ny) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < nx && y < ny) {
        out[(size_t)y * nx + x] = in[(size_t)y * nx + x];
    }
}
