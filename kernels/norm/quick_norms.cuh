// The norms in fewer instructions: exponentials in one instruction, and the statistics of a warp's lanes merged at once
// (`merge_warp`).
//
// Merging lanes pair by pair takes five merges per lane, with two exponentials or a division each. Here all lanes first
// agree on the centre of the warp and rescale their own sums to it; then five additions are left.
#pragma once

#include "../common/powers.cuh"
#include "vector_statistics.cuh"

__device__ __forceinline__ float sum_of_warp(float value) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(0xffffffffu, value, distance);
    }
    return value;
}

// Maps the bits of floats to integers in the same order. It is its own inverse.
__device__ __forceinline__ int ordered(int bits) {
    return bits >= 0 ? bits : bits ^ 0x7fffffff;
}

template <typename Norm>
struct Quick;

template <>
struct Quick<Softmax> : Softmax {
    static __device__ __forceinline__ float term(float x, float largest) {
        return exponential(x - largest);
    }
    static __device__ __forceinline__ Statistics merge(Statistics a, Statistics b) {
        const float largest = fmaxf(a.centre, b.centre);
        return {a.sum * exponential(a.centre - largest) + b.sum * exponential(b.centre - largest), largest, 0.0f};
    }
    static __device__ __forceinline__ Statistics merge_warp(Statistics own) {
        const int largest = __reduce_max_sync(0xffffffffu, ordered(__float_as_int(own.centre)));
        const float centre = __int_as_float(ordered(largest));
        return {sum_of_warp(own.sum * exponential(own.centre - centre)), centre, 0.0f};
    }
    static __device__ __forceinline__ float apply(float x, Factors row, float, float) {
        return exponential(x - row.shift) * row.scale;
    }
};

template <>
struct Quick<RmsNorm> : RmsNorm {
    static __device__ __forceinline__ Statistics merge_warp(Statistics own) {
        return {sum_of_warp(own.sum), 0.0f, 0.0f};
    }
};

template <>
struct Quick<LayerNorm> : LayerNorm {
    static __device__ __forceinline__ Statistics merge_warp(Statistics own) {
        const float count = sum_of_warp(own.count);
        const float centre = count > 0.0f ? sum_of_warp(own.centre * own.count) / count : 0.0f;
        const float between = own.centre - centre;
        return {sum_of_warp(own.sum + between * between * own.count), centre, count};
    }
};

// Normalises a vector; the weights and biases of its columns are vectors too.
template <typename Norm, typename T>
__device__ __forceinline__ void normalise_vector(float (&x)[PER_VECTOR<T>], uint4 vector, Factors factors, uint4 weight,
                                                 uint4 bias) {
    float times[PER_VECTOR<T>], plus[PER_VECTOR<T>];
    unpack(x, vector);
    unpack(times, weight);
    unpack(plus, bias);
#pragma unroll
    for (int i = 0; i < PER_VECTOR<T>; ++i) {
        x[i] = Norm::apply(x[i], factors, times[i], plus[i]);
    }
}
