// The two operations of the stages that make one number of an array: what they start from, how two numbers become one,
// and how a number is put into one in memory at once.
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
    // There is no atomic maximum of floats. The bits of positive ones are in the order of integers, those of negative
    // ones in the opposite order and, as unsigned integers, above all positive ones.
    static __device__ __forceinline__ void into(float* result, float value) {
        if (__float_as_int(value) >= 0) {
            atomicMax(reinterpret_cast<int*>(result), __float_as_int(value));
        } else {
            atomicMin(reinterpret_cast<unsigned*>(result), __float_as_uint(value));
        }
    }
};
