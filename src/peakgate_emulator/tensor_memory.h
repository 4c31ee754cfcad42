// Tensor memory of a block, and the operations on it (PTX ISA, tcgen05), for the files that implement these.
#pragma once

#include "shadow.h"

namespace peakgate {

constexpr int TENSOR_LANES = 128, TENSOR_COLUMNS = 512, WARPS_OF_GROUP = 4;

// LOADED and STORED: by a warp, complete after tcgen05.wait; the others: issued by a thread, complete after a commit.
enum TensorKind : uint8_t { LOADED, STORED, MULTIPLIED, COPIED };

struct Operation {
    Access issued;
    uint32_t stamp; // of `agent`
    uint16_t agent;
    TensorKind kind;
    bool waited;
    uint64_t accumulator; // address, shape and kind of a product: equal ones form a pipeline
    uint32_t block;       // number of the block that issued it
};

// The last operations on a word, numbered from 1; 0: none. A product reads what it `consumed`.
struct Word {
    uint32_t bits, write, load, consumed;
};

struct Allocation {
    int first, columns;
    uintptr_t caller;
};

// An operation in the tensor memory of one block: its issuer's, or that of the other block of the pair.
struct Part {
    TensorMemory* memory;
    uint32_t number;
};

// Begins an operation of this many blocks; `checks` follow until the next one. The first part is in the memory of the
// block with the lower rank, which is the only one of an operation of one block.
struct Parts {
    Part of[2];
    int own; // that of the issuer
};
Parts begin_operation(TensorKind kind, uint64_t accumulator, int blocks, uintptr_t caller);
const Operation& operation(const Part& part);
// The word of a lane and column that an operation accesses; the columns must have been checked.
enum TensorUse { TENSOR_READS = 1, TENSOR_WRITES = 2 };
Word& use_word(const Part& part, int lane, int column, int use);
// Ends the launch if these columns are not all in one allocation of the block.
void check_columns(const TensorMemory& memory, int first, int count, const char* what, uintptr_t caller);

} // namespace peakgate
