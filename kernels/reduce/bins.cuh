// The bin of a value, of BINS equally wide bins from 0 to 1; -1 for a value outside.
#pragma once

constexpr int BINS = 256;

__device__ __forceinline__ int bin_of(float value) {
    return value >= 0.0f && value < 1.0f ? static_cast<int>(value * BINS) : -1;
}

// Counts a value in shared memory; the counts of neighbouring bins are STRIDE words apart.
template <int STRIDE>
__device__ __forceinline__ void count(unsigned* counts, float value) {
    const int bin = bin_of(value);
    if (bin >= 0) {
        atomicAdd(counts + STRIDE * bin, 1u);
    }
}

template <int STRIDE>
__device__ __forceinline__ void count_quad(unsigned* counts, float4 values) {
    count<STRIDE>(counts, values.x);
    count<STRIDE>(counts, values.y);
    count<STRIDE>(counts, values.z);
    count<STRIDE>(counts, values.w);
}
