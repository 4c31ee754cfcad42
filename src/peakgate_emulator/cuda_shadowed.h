// threadIdx and its like as objects: for a source whose members or parameters have these names, which macros would
// replace. References, so that each thread reads its own.
#pragma once

template <class Native> struct peakgate_triple {
    const unsigned &x, &y, &z;
    constexpr operator Native() const { return Native{x, y, z}; }
};
#undef threadIdx
#undef blockIdx
#undef blockDim
#undef gridDim
#define PEAKGATE_TRIPLE_OF(Native, name)                                                                               \
    peakgate_triple<Native> { name##_x, name##_y, name##_z }
static constexpr auto threadIdx = PEAKGATE_TRIPLE_OF(uint3, peakgate_thread);
static constexpr auto blockIdx = PEAKGATE_TRIPLE_OF(uint3, peakgate_block);
static constexpr auto blockDim = PEAKGATE_TRIPLE_OF(dim3, peakgate_block_size);
static constexpr auto gridDim = PEAKGATE_TRIPLE_OF(dim3, peakgate_grid_size);
