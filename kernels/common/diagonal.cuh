// Diagonal order of blocks: blocks that start together lie on a diagonal of the grid instead of in one row of it.
#pragma once

// The position in the grid that this block works on. Blocks are numbered along the rows of the grid and assigned down
// its diagonals; every position is assigned exactly once, also when the grid is not square.
__device__ __forceinline__ uint2 diagonal_block() {
    const unsigned number = blockIdx.y * gridDim.x + blockIdx.x;
    const unsigned y = number % gridDim.y;
    return make_uint2((number / gridDim.y + y) % gridDim.x, y);
}
