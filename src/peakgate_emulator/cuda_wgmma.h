// Products by a warpgroup (PTX's wgmma): each warp multiplies its 16 of 64 rows when it waits for the product
// (tensor_cores.cpp).
#pragma once

#include "cuda_matrix.h"

namespace peakgate_ptx {

PEAKGATE_PTX_CALL inline void multiply_group(PeakgateProduct product) {
    product.multiply = peakgate_multiply_rows;
    peakgate_wgmma(&product, __builtin_return_address(0));
}
PEAKGATE_PTX_CALL inline void group_fence() { peakgate_wgmma_fence(__builtin_return_address(0)); }
PEAKGATE_PTX_CALL inline void group_commit() { peakgate_wgmma_commit(__builtin_return_address(0)); }
PEAKGATE_PTX_CALL inline void group_wait(int left) { peakgate_wgmma_wait(left, __builtin_return_address(0)); }

} // namespace peakgate_ptx
