// A program as people publish it: kernels of several kinds, and around them what only a host compiler understands.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <vector>

#include "foreign.cuh"

#define CHECK(call) check_status((call), __FILE__, __LINE__)
using namespace std;
static cublasHandle_t handle;

struct Stopwatch {
    cudaEvent_t start, stop;
    Stopwatch() { cudaEventCreate(&start); }
};

float twice(float value) { return 2 * value; }

// One row per block, as in many a softmax.
template <typename T, int THREADS> __global__ void softmax(T* out, const T* in, const int& columns) {
    __shared__ T shared[THREADS];
    const T* row = in + blockIdx.x * columns;
    T largest = -INFINITY;
    for (int i = threadIdx.x; i < columns; i += THREADS) largest = std::max(largest, row[i]);
    shared[threadIdx.x] = largest;
    __syncthreads();
    for (uint step = THREADS / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) shared[threadIdx.x] = fmaxf(shared[threadIdx.x], shared[threadIdx.x + step]);
        __syncthreads();
    }
    largest = shared[0];
    __syncthreads();
    T sum = 0;
    for (int i = threadIdx.x; i < columns; i += THREADS) sum += std::exp(row[i] - largest);
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (uint step = THREADS / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) shared[threadIdx.x] += shared[threadIdx.x + step];
        __syncthreads();
    }
    for (int i = threadIdx.x; i < columns; i += THREADS)
        out[blockIdx.x * columns + i] = std::exp(row[i] - largest) / shared[0];
}

namespace scaling {
__constant__ float factors[4];
__global__ void by_constant(float* out, const float* in) {
    out[threadIdx.x] = twice(in[threadIdx.x]) * factors[threadIdx.x % 4];
}
} // namespace scaling

struct Line {
    int offset;
    double slope;
};
__global__ void along(float* out, const float* in, Line line) {
    static_assert(std::numeric_limits<float>::max() == FLT_MAX, "float.h and limits agree");
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
    out[threadIdx.x] = line.offset + line.slope * in[threadIdx.x];
#endif
}

void on_the_host(float* out, const float* in, int n) {
    std::vector<float> kept(in, in + n);
    for (int i = 0; i < n; ++i) out[i] = kept[i];
}

template <typename T> void launch(T* out, const T* in, int rows, int columns) {
    softmax<T, 256><<<rows, 256>>>(out, in, columns);
    CHECK(cudaGetLastError());
}

int main(int argc, char** argv) {
    Stopwatch watch;
    float* device = nullptr;
    CHECK(cudaMalloc(&device, 4096));
    launch(device, device, 4, 100);
    cout << "done" << endl;
    return 0;
}
