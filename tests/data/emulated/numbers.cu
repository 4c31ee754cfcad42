#ifndef STATE
#define STATE curandState state
#endif
#include <curand_kernel.h>
template <class State> __device__ void fill(unsigned* bits, float* uniform, int n) {
    State state;
    curand_init(1234ull, threadIdx.x, 3ull, &state);
    for (int i = 0; i < n; ++i) bits[threadIdx.x * n + i] = curand(&state);
    for (int i = 0; i < n; ++i) uniform[threadIdx.x * n + i] = i % 2 ? curand_uniform(&state) : curand_normal(&state);
}
extern "C" __global__ void philox(unsigned* bits, float* uniform, int n) {
    fill<curandStatePhilox4_32_10_t>(bits, uniform, n);
}
extern "C" __global__ void xorwow(unsigned* bits, unsigned* states, int n) {
    STATE;
    curand_init(99ull, threadIdx.x, 0ull, &state);
    for (int i = 0; i < 5; ++i) states[threadIdx.x * 6 + i] = state.v[i];
    states[threadIdx.x * 6 + 5] = state.d;
    SYNC;
    for (int i = 0; i < n; ++i) bits[threadIdx.x * n + i] = curand(&state);
}
