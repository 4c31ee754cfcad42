// Tensor memory and the products in it (PTX's tcgen05): tensor_memory.cpp, tensor_products.cpp.
#pragma once

#include "cuda_matrix.h"

namespace peakgate_ptx {

PEAKGATE_PTX_CALL inline void tensor_alloc(void* to, unsigned columns, int blocks) {
    peakgate_tensor_alloc(to, columns, blocks, __builtin_return_address(0));
}
PEAKGATE_PTX_CALL inline void tensor_dealloc(uint32_t address, unsigned columns, int blocks) {
    peakgate_tensor_dealloc(address, columns, blocks, __builtin_return_address(0));
}
PEAKGATE_PTX_CALL inline void tensor_relinquish(int blocks) { peakgate_tensor_relinquish(blocks, __builtin_return_address(0)); }
PEAKGATE_PTX_CALL inline void tensor_wait(int stores) { peakgate_tensor_wait(stores, __builtin_return_address(0)); }
PEAKGATE_PTX_CALL inline void tensor_commit(void* barrier, int blocks, unsigned to_blocks) {
    peakgate_tensor_commit(barrier, blocks, to_blocks, __builtin_return_address(0));
}
PEAKGATE_PTX_CALL inline void tensor_copy(uint32_t to, uint64_t from, int rows, int units, int repeats, int blocks) {
    peakgate_tensor_copy(to, from, rows, units, repeats, blocks, __builtin_return_address(0));
}
PEAKGATE_PTX_CALL inline void tensor_multiply(PeakgateTensorProduct product) {
    product.multiply = peakgate_multiply_rows;
    peakgate_tensor_multiply(&product, __builtin_return_address(0));
}

template <int COUNT> struct TensorRegisters {
    uint32_t of[COUNT];
};

template <int COUNT> PEAKGATE_PTX_CALL PEAKGATE_UNWATCHED TensorRegisters<COUNT> tensor_load(uint32_t address, int shape, int split, int packs) {
    TensorRegisters<COUNT> loaded;
    peakgate_tensor_move(address, shape, split, COUNT, packs, 1, loaded.of, __builtin_return_address(0));
    return loaded;
}

// The values of a lane's columns combined.
template <class T, int COUNT, class F> PEAKGATE_UNWATCHED T tensor_reduced(const TensorRegisters<COUNT>& loaded, F combine, bool of_magnitudes) {
    T found = {};
    for (int i = 0; i < COUNT; ++i) {
        T value;
        memcpy(&value, &loaded.of[i], sizeof value);
        if (of_magnitudes && value < 0) value = -value;
        found = i ? combine(found, value) : value;
    }
    return found;
}

// The registers are passed as values, since accesses to an array would be instrumented.
template <class... R> PEAKGATE_PTX_CALL PEAKGATE_UNWATCHED void tensor_store(uint32_t address, int shape, int split, int packs, R... registers) {
    uint32_t given[] = {static_cast<uint32_t>(registers)...};
    peakgate_tensor_move(address, shape, split, sizeof...(R), packs, 0, given, __builtin_return_address(0));
}

} // namespace peakgate_ptx
