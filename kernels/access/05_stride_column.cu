// stride_column: strided access to a whole matrix in row-major order: each warp walks down a column.
//
// The 32 elements of a warp are in 32 sectors. Unlike in `stride`, no sector is wasted, because the other warps of the
// block use the rest of it (blockDim.y adjacent columns). But each request needs 32 sectors, and each sector is
// requested many times, so the request rate of the caches is the limit, not memory. Expect a third of one_per_thread or
// less.

#ifndef REAL
#define REAL float
#endif

extern "C" __global__ void stride_column(REAL* __restrict__ matrix, int rows, int columns) {
    const int row = blockIdx.y * blockDim.x + threadIdx.x;
    const int column = blockIdx.x * blockDim.y + threadIdx.y;
    if (row < rows && column < columns) {
        matrix[(size_t)row * columns + column] += 1;
    }
}
