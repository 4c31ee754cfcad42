// The bin of a value, of BINS equal ones from 0 up to 1; -1 for a value outside.
#pragma once

constexpr int BINS = 256;

__device__ __forceinline__ int bin_of(float value) {
    return value >= 0.0f && value < 1.0f ? static_cast<int>(value * BINS) : -1;
}
