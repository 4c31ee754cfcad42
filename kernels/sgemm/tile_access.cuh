// Bounds-checked access to a matrix at its edges, and accesses of four floats at a time, for all stages of the family.
//
// A matrix is row-major, rows x cols. Elements outside it read as zero, which adds nothing to a sum of products, and
// are never written. Offsets are size_t, because rows * cols exceeds 2^31 from 46341 x 46341 on.
#pragma once

__device__ __forceinline__ size_t offset_of(int row, int col, int cols) {
    return static_cast<size_t>(row) * cols + col;
}

__device__ __forceinline__ float load(const float* matrix, int row, int col, int rows, int cols) {
    return row < rows && col < cols ? matrix[offset_of(row, col, cols)] : 0.0f;
}

__device__ __forceinline__ void store(float* matrix, int row, int col, int rows, int cols, float value) {
    if (row < rows && col < cols) {
        matrix[offset_of(row, col, cols)] = value;
    }
}

// Four neighbouring floats at a 16-byte aligned address.
__device__ __forceinline__ float4 read4(const float* from) {
    return *reinterpret_cast<const float4*>(from);
}

__device__ __forceinline__ void write4(float* to, float4 value) {
    *reinterpret_cast<float4*>(to) = value;
}

__device__ __forceinline__ void unpack(float4 value, float* to) {
    to[0] = value.x;
    to[1] = value.y;
    to[2] = value.z;
    to[3] = value.w;
}

__device__ __forceinline__ float4 pack(const float* from) {
    return make_float4(from[0], from[1], from[2], from[3]);
}

// Elements (row, col) to (row, col + 3), col a multiple of 4. If cols % 4 == 0 they are either all inside or all
// outside, and are moved as one float4. If not, rows begin at addresses that are not aligned for float4, and each
// element is moved alone. Blocks whose tiles are inside the matrices need no such check: their loops call read4.
__device__ __forceinline__ float4 load4(const float* matrix, int row, int col, int rows, int cols) {
    if (cols % 4 == 0) {
        const bool inside = row < rows && col < cols;
        return inside ? read4(matrix + offset_of(row, col, cols)) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    return make_float4(load(matrix, row, col, rows, cols), load(matrix, row, col + 1, rows, cols),
                       load(matrix, row, col + 2, rows, cols), load(matrix, row, col + 3, rows, cols));
}

__device__ __forceinline__ void store4(float* matrix, int row, int col, int rows, int cols, float4 value) {
    if (cols % 4 == 0) {
        if (row < rows && col < cols) {
            write4(matrix + offset_of(row, col, cols), value);
        }
    } else {
        store(matrix, row, col, rows, cols, value.x);
        store(matrix, row, col + 1, rows, cols, value.y);
        store(matrix, row, col + 2, rows, cols, value.z);
        store(matrix, row, col + 3, rows, cols, value.w);
    }
}
