// The statistics that a row is normalised by, and the normalisation: softmax, RMS norm and layer norm behind one
// interface.
//
// The statistics of some elements are a centre (the largest element, nothing, or the mean), a sum of terms about that
// centre, and the number of elements. `merge` combines the statistics of two sets into those of their union, so that a
// row can be read once, by any number of threads: for softmax this is the online softmax, for layer norm the update of
// Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979), which
// has no cancellation.
//
// A norm has MEMBERS, the number of members of Statistics that it uses, from the first on, and PARAMETERS, the number
// of arrays with one value for each column: a weight, then a bias.
#pragma once

#include "../common/vectors.cuh"

struct Statistics {
    float sum, centre, count;
};

struct Factors {
    float shift, scale;
};

constexpr float LOWEST = -3.402823466e+38f;
constexpr float EPSILON = 1e-5f;

struct Softmax {
    static constexpr int MEMBERS = 2, PARAMETERS = 0;
    static constexpr float START = LOWEST;

    static __device__ __forceinline__ float fold(float largest, float x) {
        return fmaxf(largest, x);
    }
    static __device__ __forceinline__ float centre(float largest, float) {
        return largest;
    }
    static __device__ __forceinline__ float term(float x, float largest) {
        return __expf(x - largest);
    }
    static __device__ __forceinline__ Statistics merge(Statistics a, Statistics b) {
        const float largest = fmaxf(a.centre, b.centre);
        return {a.sum * __expf(a.centre - largest) + b.sum * __expf(b.centre - largest), largest, 0.0f};
    }
    static __device__ __forceinline__ Factors factors(Statistics row, float) {
        return {row.centre, 1.0f / row.sum};
    }
    static __device__ __forceinline__ float apply(float x, Factors row, float, float) {
        return __expf(x - row.shift) * row.scale;
    }
};

struct RmsNorm {
    static constexpr int MEMBERS = 1, PARAMETERS = 1;
    static constexpr float START = 0.0f;

    static __device__ __forceinline__ float fold(float none, float) {
        return none;
    }
    static __device__ __forceinline__ float centre(float none, float) {
        return none;
    }
    static __device__ __forceinline__ float term(float x, float) {
        return x * x;
    }
    static __device__ __forceinline__ Statistics merge(Statistics a, Statistics b) {
        return {a.sum + b.sum, 0.0f, 0.0f};
    }
    static __device__ __forceinline__ Factors factors(Statistics row, float n) {
        return {0.0f, rsqrtf(row.sum / n + EPSILON)};
    }
    static __device__ __forceinline__ float apply(float x, Factors row, float weight, float) {
        return x * row.scale * weight;
    }
};

struct LayerNorm {
    static constexpr int MEMBERS = 3, PARAMETERS = 2;
    static constexpr float START = 0.0f;

    static __device__ __forceinline__ float fold(float sum, float x) {
        return sum + x;
    }
    static __device__ __forceinline__ float centre(float sum, float count) {
        return count > 0.0f ? sum / count : 0.0f;
    }
    static __device__ __forceinline__ float term(float x, float mean) {
        return (x - mean) * (x - mean);
    }
    static __device__ __forceinline__ Statistics merge(Statistics a, Statistics b) {
        const float count = a.count + b.count;
        const float share = count > 0.0f ? __fdividef(b.count, count) : 0.0f;
        const float between = b.centre - a.centre;
        return {a.sum + b.sum + between * between * a.count * share, a.centre + between * share, count};
    }
    static __device__ __forceinline__ Factors factors(Statistics row, float n) {
        return {row.centre, rsqrtf(row.sum / n + EPSILON)};
    }
    static __device__ __forceinline__ float apply(float x, Factors row, float weight, float bias) {
        return (x - row.shift) * row.scale * weight + bias;
    }
};

// The statistics of zero elements.
template <typename Norm>
__device__ __forceinline__ Statistics nothing() {
    return {0.0f, Norm::START, 0.0f};
}

// The statistics of one element.
template <typename Norm>
__device__ __forceinline__ Statistics statistics_of(float x) {
    const float centre = Norm::centre(Norm::fold(Norm::START, x), 1.0f);
    return {Norm::term(x, centre), centre, 1.0f};
}

// Normalises the element of column i.
template <typename Norm, typename T>
__device__ __forceinline__ float normalised(float x, Factors row, const T* __restrict__ weight,
                                            const T* __restrict__ bias, int i) {
    const float times = Norm::PARAMETERS > 0 ? as_float(weight[i]) : 1.0f;
    const float plus = Norm::PARAMETERS > 1 ? as_float(bias[i]) : 0.0f;
    return Norm::apply(x, row, times, plus);
}

// The statistics of the lane whose number differs from this one's in the bit `distance`.
template <typename Norm>
__device__ __forceinline__ Statistics of_other_lane(Statistics own, int distance) {
    Statistics other = own;
    other.sum = __shfl_xor_sync(0xffffffffu, own.sum, distance);
    if (Norm::MEMBERS > 1) {
        other.centre = __shfl_xor_sync(0xffffffffu, own.centre, distance);
    }
    if (Norm::MEMBERS > 2) {
        other.count = __shfl_xor_sync(0xffffffffu, own.count, distance);
    }
    return other;
}

// Merges the statistics of LANES neighbouring lanes, a power of two; each of them gets the result.
template <typename Norm, int LANES>
__device__ __forceinline__ Statistics merged_lanes(Statistics own) {
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
        own = Norm::merge(own, of_other_lane<Norm>(own, distance));
    }
    return own;
}
