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
};

// The last operations on a word, numbered from 1; 0: none. A product reads what it `consumed`.
struct Word {
    uint32_t bits, write, load, consumed;
};

struct Allocation {
    int first, columns;
    uintptr_t caller;
};

// Begins an operation; `checks` follow until the next one.
uint32_t begin_operation(TensorKind kind, uint64_t accumulator, uintptr_t caller);
const Operation& operation(uint32_t number);
// The word of a lane and column that operation `number` accesses; the columns must have been checked.
enum TensorUse { TENSOR_READS = 1, TENSOR_WRITES = 2 };
Word& use_word(uint32_t number, int lane, int column, int use);
// Ends the launch if these columns are not all in one allocation.
void check_columns(int first, int count, const char* what, uintptr_t caller);

} // namespace peakgate
