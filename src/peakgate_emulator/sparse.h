// Metadata of a sparse A: four bits for two of four columns, for one of two if numbers have 32 bits, for two of four pairs
// if they have 4 (PTX ISA 9.7.14.5.1, 9.7.16.10.8).
#pragma once

#include "runtime.h"

namespace peakgate {

// The higher column first: not known, a defect, or as the ISA lists it for tcgen05 (0b0110 alone), where the first number
// has that column, as probes on a B200 found (sf-tensor/tcgen05).
enum ChunkOrder { ORDER_UNKNOWN, ORDER_ASCENDS, ORDER_LISTED };
struct Chunk {
    unsigned metadata;
    int bits_of_number, row, number, lane;
    ChunkOrder order;
};

// Columns of a chunk.
inline int width_of_chunk(int bits_of_number) { return bits_of_number == 32 ? 2 : bits_of_number == 4 ? 8 : 4; }

// The columns of the numbers that a chunk has, half of its own.
inline void select_columns(const Chunk& of, uintptr_t caller, unsigned char* to) {
    const int width = width_of_chunk(of.bits_of_number), first = of.number * width, together = width / 4;
    const int low = static_cast<int>(of.metadata & 3), high = static_cast<int>(of.metadata >> 2);
    const bool is_word = of.bits_of_number == 32, is_listed = low < high || (of.order == ORDER_LISTED && of.metadata == 0x6);
    if (low == high || (is_word && of.metadata != 0x4 && of.metadata != 0xe) || (!is_listed && of.order != ORDER_UNKNOWN)) {
        report(INVALID_METADATA, caller, 0, "sparse A whose metadata for columns %d to %d of row %d is %#x (of lane %d), expected %s", first,
               first + width - 1, of.row, of.metadata, of.lane, is_word ? "0x4 or 0xe" : "two columns, the lower one first");
        abandon_launch();
    }
    if (!is_listed) {
        report(NOT_EMULATED, caller, 0, "sparse A whose metadata has the higher column first (%#x)", of.metadata);
        abandon_launch();
    }
    if (is_word) *to = static_cast<unsigned char>(first + (of.metadata == 0xe));
    for (int i = 0; i < together; ++i) {
        to[i] = static_cast<unsigned char>(first + low * together + i);
        to[together + i] = static_cast<unsigned char>(first + high * together + i);
    }
}

} // namespace peakgate
