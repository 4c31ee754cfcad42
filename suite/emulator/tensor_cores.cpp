// Products by a group of four warps (wgmma).
#include "runtime.h"

#include <stdlib.h>

namespace peakgate {

struct TensorCores {
    int unused;
};

TensorCores* new_tensor_cores() { return static_cast<TensorCores*>(calloc(1, sizeof(TensorCores))); }

void begin_block_of_tensor_cores() {}

} // namespace peakgate
