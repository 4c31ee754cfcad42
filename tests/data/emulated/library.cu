#include <cuda/std/span>
#include <cuda/std/mdspan>
#include <cuda/std/bit>
#include <cuda/std/array>
#include <cuda/std/algorithm>
#include <cuda/std/complex>
#include <cuda/cmath>
extern "C" __global__ void library(float* out, const float* in, int n, int waits, int shift) {
    __shared__ float tile[4 * 8];
    const cuda::std::span<const float> given(in, n);
    const cuda::std::mdspan<float, cuda::std::extents<int, 4, 8>> matrix(tile);
    const int row = threadIdx.x / 8, col = threadIdx.x % 8;
    matrix(row, col) = given[threadIdx.x];
    if (waits) __syncthreads();
    const float turned = matrix((row + 1) % 4, 7 - col);
    const cuda::std::array<int, 3> sorted = {1, 2, cuda::ceil_div(n, 16)};
    const cuda::std::complex<float> square = cuda::std::complex<float>(0, 2) * cuda::std::complex<float>(0, 1);
    const unsigned bits = cuda::std::bit_cast<unsigned>(turned) + cuda::std::popcount(0u);
    const cuda::std::span<float> to(out, n);
    to[threadIdx.x + shift] = cuda::std::bit_cast<float>(bits) + cuda::std::max(sorted[1], sorted[2]) + square.real();
}
