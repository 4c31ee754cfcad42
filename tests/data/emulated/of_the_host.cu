#include <bits/stdc++.h>
#include <functional>
#include <iterator>
#include <complex>
#include <variant>
#include <cuComplex.h>
#include <cufft.h>
#include <cuda/std/atomic>
__global__ void other(float* out) {
    __shared__ float much[12 * 1024];
    much[threadIdx.x] = out[threadIdx.x];
}
__device__ cuda::std::atomic<int> count;
__global__ void of_the_host(cufftComplex* out, std::uintptr_t where) {
    __shared__ float few[32];
    few[threadIdx.x] = std::plus<float>()(threadIdx.x, std::max(1, 2));
    out[threadIdx.x] = cuCmulf(make_cuComplex(few[threadIdx.x], 1), make_cuFloatComplex(0, 1));
    count.fetch_add(1);
}
