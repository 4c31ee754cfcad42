#include "norms.cuh"

template <typename T, int THREADS>
__global__ void softmax(T* out, const T* in, int rows, int columns)
{
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
        const T* from = in + (size_t)row * columns;
        T* to = out + (size_t)row * columns;
        T most = from[0];
        for (int at = threadIdx.x; at < columns; at += THREADS) {
            most = max(most, from[at]);
        }
        most = of_block<THREADS>(most, cg::greater<T>());
        T sum = 0;
        for (int at = threadIdx.x; at < columns; at += THREADS) {
            sum += exp(from[at] - most);
        }
        sum = of_block<THREADS>(sum, cg::plus<T>());
        for (int at = threadIdx.x; at < columns; at += THREADS) {
            to[at] = exp(from[at] - most) / sum;
        }
    }
}
