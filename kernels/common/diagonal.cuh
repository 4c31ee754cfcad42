// Diagonal block order: blocks that start together lie on a diagonal of the grid, not in one row of it.
#pragma once

// The grid position this block works on. Blocks are numbered along grid rows, then assigned down the diagonals; every
// position is assigned once, also when the grid is not square.
__device__ __forceinline__ uint2 diagonal_block() {
    const unsigned number = blockIdx.y * gridDim.x + blockIdx.x;
    const unsigned y = number % gridDim.y;
    return make_uint2((number / gridDim.y + y) % gridDim.x, y);
}
