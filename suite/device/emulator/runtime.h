// What the files of the runtime share: the state of the one launch that may run at a time.
#pragma once

#define PEAKGATE_RUNTIME
#include "runtime_api.h"

#define PEAKGATE_CALLER reinterpret_cast<uintptr_t>(__builtin_return_address(0))

namespace peakgate {

constexpr int MAX_THREADS = 1024;
constexpr int WARP = 32;
constexpr int MAX_BUFFERS = 64;
constexpr int MAX_REPORTS = 32;

// The same numbers as DefectKind in defects.py.
enum Kind : int32_t {
    OUT_OF_BOUNDS = 1,
    INDEX_OUT_OF_BOUNDS,
    SHARED_RACE,
    GLOBAL_RACE,
    UNINITIALISED_SHARED,
    DIVERGENT_BARRIER,
    MISALIGNED,
    ENDLESS_LOOP,
    WARP_MASK,
    CONST_WRITE,
    ASSERTION,
    FAULT,
    UNWRITTEN_OUTPUT, // found by launch.py
};

// Read by launch.py (structures.py). Code addresses are relative to the kernel's image, 0 if there is none.
struct Report {
    int32_t kind;
    int32_t count;
    uint64_t address, other_address;
    uint3 thread, block, other_thread;
    int32_t has_other_thread;
    char message[160];
};

// An array argument, filled in by launch.py but for `device`, which comes first: its address is the kernel's argument.
struct Buffer {
    void* device;
    void* host;
    uint64_t size;
    int32_t argument;
    int32_t writable;
    int32_t written; // out: a checked launch wrote to it
    int32_t unused;
};

// Filled in by launch.py.
struct Launch {
    uint32_t grid[3], block[3];
    void (*call)(void** arguments);
    void** arguments;
    Buffer* buffers;
    int32_t buffer_count;
    int32_t checked;
    uint32_t schedule;
    uint32_t shared_bytes;
    int32_t stall_ms;
    int32_t unused;
    int64_t access_budget;
    char* (*dynamic_shared)();
};

enum Status : uint8_t { NEW, READY, AT_BARRIER, IN_WARP, CONVERGING, DONE };

struct Thread {
    void* stack_pointer;
    uint3 index;
    Status status;
    bool predicate;      // given to the barrier it waits at
    int barrier_site;    // which barrier or point of convergence that is
    unsigned warp_mask;  // given to the warp primitive it waits in, or the lanes it converged with
    uint32_t warp_epoch; // its warp's count of rendezvous, at the last one it took part in
    int stack;
    uintptr_t waits_at; // code address of the call it waits in
};

struct State {
    Launch launch;
    Thread threads[MAX_THREADS];
    int thread_count;
    int current;
    bool running;  // fibers are: the runtime is not at work itself
    bool checking; // memory hooks are live: a kernel of a checked build is running

    // Time is counted in epochs, which barriers and block boundaries end; it goes on from launch to launch.
    uint32_t epoch, block_epoch, launch_epoch;
    // Writes of earlier blocks up to `published_epoch` were followed by a fence and an atomic; this block has done an
    // atomic when they had got to `acquired_epoch`.
    uint32_t published_epoch, acquired_epoch;
    bool fenced;

    int64_t budget_left;
    uintptr_t image, image_size;   // the kernel's shared object
    uintptr_t shared, shared_size; // its thread-local segment: every __shared__ variable
    uintptr_t dynamic_shared;      // within that segment
    uintptr_t stacks, stacks_size;
    Report reports[MAX_REPORTS];
    int report_count;
};

extern State state;

inline Thread& current_thread() { return state.threads[state.current]; }

// Notes a defect of the current thread; the same one at the same places is only counted. Returns the report if it is new.
__attribute__((format(printf, 4, 5))) Report* report(Kind kind, uintptr_t address, uintptr_t other_address,
                                                     const char* format, ...);

// Ends the launch from inside a fiber.
[[noreturn]] void abandon_launch();

[[noreturn]] void budget_spent(uintptr_t caller);

// Every memory access, every wait and every thread costs one: a launch that cannot end is found out.
inline void spend_budget(uintptr_t caller) {
    if (__builtin_expect(--state.budget_left < 0, 0)) budget_spent(caller);
}

// Sets the current thread aside until another has made it ready again.
void wait_as(Status status, uintptr_t caller);

// Takes a thread that has ended out of its warp; the others no longer wait for it.
void leave_warp(int thread);
void begin_block_of_warps();

// Maps what a launch needs and finds the kernel's image; false if memory cannot be had. Unmapping comes after it in
// either case and, if asked to, first copies the arrays back to the host.
bool map_launch();
void unmap_launch(bool copy_back);
char* stack_top(int stack);
// Fills shared memory as a block finds it.
void poison_shared();

// Checks a range that compiled hooks do not see: it is accessed by the runtime on behalf of the kernel.
void check_read(const void* address, size_t size, uintptr_t caller);
void check_write(void* address, size_t size, uintptr_t caller);
// An asynchronous copy has been issued. Its source is read at some time until it is waited for, if it ever is, so it has
// to lie in global memory by now; nobody may touch its destination until then.
void check_async_source(const void* source, size_t size, uintptr_t caller);
void check_async_destination(void* destination, size_t size, uintptr_t caller);

// Prepares the shadow memory of a launch; false if the memory for it cannot be had.
bool begin_checks();

// Turns what would end the process while a kernel runs (a wild address, a full stack) into a report; undone after it.
void catch_faults();
void release_faults();
// The kernel's code a signal interrupted, as reports give addresses (one past it); 0 where that is not the kernel's.
uintptr_t interrupted_at(const void* context);

// Abandons the launch from the handler of this signal.
[[noreturn]] void abandon_launch_from_handler(int signal);

// Watches over a launch; false if the system has no timer for it.
bool start_watchdog();
void stop_watchdog();

// Forgets the copies of threads that ended without waiting for them.
void drop_async_copies();

} // namespace peakgate
