// stride_column: the strided walk over a whole matrix: a warp goes down a column, rows x columns in row-major order.
//
// Its 32 elements lie in 32 sectors. Unlike in `stride` nothing is wasted for good, because the other warps of the
// block use the rest of each sector (blockDim.y adjacent columns); but every request is split 32 ways and each sector
// is asked for again and again, so the caches' request rate becomes the limit and not the memory. Expect a third of
// one_per_thread or less.

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
