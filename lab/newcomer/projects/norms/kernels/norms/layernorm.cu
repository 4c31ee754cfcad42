#include "norms.cuh"

template <typename T, int THREADS>
__global__ void layernorm(T* out, const T* in, int rows, int columns)
{
    for (int step = blockIdx.x; step < rows; step += gridDim.x) {
        const int row = step % rows;
        const T* from = in + (size_t)row * columns;
        T* to = out + (size_t)row * columns;
        T sum = 0;
        for (int at = threadIdx.x; at < columns; at += THREADS) {
            sum += from[at];
        }
        const T mean = of_block<THREADS>(sum, cg::plus<T>()) / columns;
        T squares = 0;
        for (int at = threadIdx.x; at < columns; at += THREADS) {
            squares += (from[at] - mean) * (from[at] - mean);
        }
        const T scale = rsqrt(of_block<THREADS>(squares, cg::plus<T>()) / columns + T(1e-5));
        for (int at = threadIdx.x; at < columns; at += THREADS) {
            to[at] = (from[at] - mean) * scale;
        }
    }
}
