// What the runtime calls of the files that are linked only if the kernel calls one of them (build.py): they have nothing
// to do where no kernel has given them anything. Their own definitions replace these, which are weak.
#include "runtime.h"

namespace peakgate {

#define PEAKGATE_ABSENT __attribute__((weak))

// ---- bulk_copy.cpp ----
PEAKGATE_ABSENT BulkCopies* new_bulk_copies() { return static_cast<BulkCopies*>(malloc(1)); } // null: there is no memory
PEAKGATE_ABSENT void begin_block_of_bulk_copies() {}
PEAKGATE_ABSENT void end_thread_of_bulk_copies() {}
PEAKGATE_ABSENT bool complete_bulk_copies(int, Published&) { return false; }
PEAKGATE_ABSENT bool has_bulk_copies(const Block&, int) { return false; }
PEAKGATE_ABSENT uintptr_t bulk_copy_in_flight(uintptr_t) { return 0; }
PEAKGATE_ABSENT bool awaits_copies_of_others(uintptr_t&) { return false; }
PEAKGATE_ABSENT bool reads_shared_of(const Block&, const Block&, uintptr_t&) { return false; }

// ---- tensor_cores.cpp ----
PEAKGATE_ABSENT TensorCores* new_tensor_cores() { return static_cast<TensorCores*>(malloc(1)); }
PEAKGATE_ABSENT void begin_block_of_tensor_cores() {}
PEAKGATE_ABSENT void end_thread_of_tensor_cores() {}
PEAKGATE_ABSENT void check_sums(uintptr_t, size_t, bool, uintptr_t) {}

// ---- tensor_memory.cpp ----
PEAKGATE_ABSENT void publish_tensors(Published&) {}
PEAKGATE_ABSENT void publish_tensors(Clock*&, bool) {}
PEAKGATE_ABSENT void complete_tensors(const Clock*) {}
PEAKGATE_ABSENT void begin_block_of_tensor_memory(Block&) {}
PEAKGATE_ABSENT void end_thread_of_tensor_memory() {}
PEAKGATE_ABSENT uint32_t last_of_peer(int, uintptr_t&) { return 0; }
PEAKGATE_ABSENT bool report_tensor_memory() { return false; }

} // namespace peakgate
