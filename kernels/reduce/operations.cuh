// The two operations of the stages that reduce an array to one number (sum, maximum): the value to start from, how two
// numbers are combined, and how a number is combined with one in memory by an atomic operation.
#pragma once

struct Sum {
    static constexpr float START = 0.0f;

    static __device__ __forceinline__ float combine(float a, float b) {
        return a + b;
    }
    static __device__ __forceinline__ void into(float* result, float value) {
        atomicAdd(result, value);
    }
};

struct Max {
    static constexpr float START = -3.402823466e+38f;

    static __device__ __forceinline__ float combine(float a, float b) {
        return fmaxf(a, b);
    }
    // There is no atomic maximum for floats. The bits of positive floats are in the order of integers; those of
    // negative floats are in the opposite order and, as unsigned integers, above all positive ones.
    static __device__ __forceinline__ void into(float* result, float value) {
        if (__float_as_int(value) >= 0) {
            atomicMax(reinterpret_cast<int*>(result), __float_as_int(value));
        } else {
            atomicMin(reinterpret_cast<unsigned*>(result), __float_as_uint(value));
        }
    }
};
