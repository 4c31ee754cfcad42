// State shared by the files of the runtime; only one launch runs at a time.
#pragma once

#define PEAKGATE_RUNTIME
#include "runtime_api.h"

#include <stdlib.h>

#define PEAKGATE_CALLER reinterpret_cast<uintptr_t>(__builtin_return_address(0))

namespace peakgate {

// Appends an item to a list, which is enlarged if it is full.
template <class T> void append(T*& list, size_t& count, size_t& room, const T& item) {
    if (count == room) {
        room = room ? 2 * room : 16;
        list = static_cast<T*>(realloc(list, room * sizeof(T)));
        if (!list) abort();
    }
    list[count++] = item;
}

constexpr int MAX_THREADS = 1024;
constexpr int WARP = 32;
// Agents perform asynchronous operations: each has a clock, which threads join by waiting for it. There are agents for
// copies to shared memory, by barrier object, and for copies from it, products, and accesses to tensor memory, by warp.
constexpr int AGENTS_OF_A_KIND = 32, AGENTS = 4 * AGENTS_OF_A_KIND;
enum AgentKind { LOADS, STORES, PRODUCTS, TENSORS };
constexpr int agent(AgentKind kind, int number) { return MAX_THREADS + kind * AGENTS_OF_A_KIND + number % AGENTS_OF_A_KIND; }
constexpr int MAX_CLUSTER = 16; // blocks
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
    UNWRITTEN_OUTPUT, // reported by launch.py
    SAME_VALUE_RACE,
    UNINITIALISED_GLOBAL,
    NONFINITE,
    NOT_EMULATED, // not a defect of the kernel
    REGISTER_RACE,
    NOT_ENDED, // time limit exceeded; not a defect
    DANGLING_POINTER,
    LAUNCH_REFUSED,
    INVALID_METADATA,
    UNSET_VALUE, // found by launch.py
    TENSOR_RACE,
    TENSOR_ACCESS,
    UNINITIALISED_TENSOR,
    INVALID_DESCRIPTOR,
};

// Read by launch.py (binary.py). Code addresses are relative to the kernel's image, 0 if unknown.
struct Report {
    int32_t kind;
    int32_t count;
    uint64_t address, other_address;
    uint3 thread, block, other_thread, other_block;
    int32_t has_other_thread;
    int32_t missing_fence;  // `MissingFence`
    uint64_t published_at;  // the strong store that should have published the other access; 0 if unknown
    char message[220];
};

// An array argument, filled in by launch.py except `device`, which is first: its address is the kernel's argument.
struct Buffer {
    void* device;
    void* host;
    uint64_t size;
    int32_t argument;
    int32_t writable;
    int32_t is_output;     // reads before writes are defects, and all of it must be written
    int32_t floating_size; // bytes of a floating-point element, if NaNs and infinities are reported; otherwise 0
    uint64_t not_finite;   // the bits of an element that are all set only in NaNs and infinities
    uint64_t unwritten, first_unwritten; // out: number of bytes of an output that were not written, and the first one
};

// Location of a pointer to an array in another array (`holder`) or in a value (`value`), filled in by launch.py.
struct Slot {
    char* value;
    const Buffer* holder; // null: the pointer is in a value
    uint64_t offset;
    const Buffer* target;
};

// A texture or surface object, filled in by launch.py (arguments.py); its address is the kernel's argument. Its texels
// are an array, row by row.
enum TexelKind : int32_t { UNSIGNED_TEXEL, SIGNED_TEXEL, FLOATING_TEXEL };
enum AddressMode : int32_t { WRAP, CLAMP, MIRROR, BORDER }; // CUDA's numbers
struct Texture {
    Buffer* buffer;
    int32_t dimensions; // 0: linear memory
    int32_t size[3];    // width, height, depth; 1 for missing dimensions
    int32_t layers;     // 0: not layered
    int32_t channels, channel_bytes;
    TexelKind kind;
    AddressMode address;
    int32_t linear, normalized_coordinates, normalized_values, is_surface;
};

// The copy engine's view of an array, filled in by launch.py; the kernel's argument contains its address. Axes are
// numbered from the contiguous one.
constexpr int MAX_AXES = 5;
struct TensorMap {
    Buffer* buffer;
    int32_t axes, element_bytes;
    uint64_t extents[MAX_AXES]; // in elements
    uint64_t strides[MAX_AXES]; // in bytes
    int32_t box[MAX_AXES];      // elements per copy
    int32_t swizzle;            // bytes within which units of 16 bytes are permuted; 0: none
};

// One access to the traced block's shared memory; read by defects.py.
struct Traced {
    uint32_t epoch, thread, offset, size, address;
    uint32_t manner; // 1: a write, 2: atomic, 4: an asynchronous copy was issued, 8: `offset` counts from the dynamic part
};

// A __device__ or __constant__ variable of the kernel's image, followed by a gap (binary.py).
struct Variable {
    uint64_t start, size;
    const char* name;
};
constexpr uintptr_t VARIABLE_GAP_BYTES = 256;

// Filled in by launch.py.
struct Launch {
    uint32_t grid[3], block[3];
    void (*call)(void** arguments);
    void** arguments;
    Buffer* buffers;
    int32_t buffer_count;
    uint32_t schedule;
    uint32_t shared_bytes;
    int64_t limit_ms; // limit of processor time
    int32_t cooperative; // all blocks are alive at once, so that grid barriers work
    int64_t access_budget;
    char* (*dynamic_shared)();
    Texture* textures;
    int32_t texture_count;
    uint32_t trace_block[3]; // the block whose accesses to shared memory are traced
    Traced* trace;           // null: none
    uint64_t trace_room;
    uint64_t* traced; // out: their number, including those that did not fit
    const uint64_t* guards; // offsets in shared memory of the guard variables that g++ gives objects with a constructor
    int32_t guard_count;
    const Variable* shared_arrays; // by offset in shared memory, sorted
    int32_t shared_array_count;
    const Slot* slots;
    int32_t slot_count;
    int32_t variable_count;
    const Variable* variables; // sorted by address
    const TensorMap* tensor_maps;
    int32_t tensor_map_count;
};

enum Status : uint8_t {
    NEW,
    READY,
    AT_BARRIER,
    IN_WARP,
    CONVERGING,
    AT_NAMED_BARRIER,
    AT_OBJECT,
    AT_GRID_BARRIER,
    AT_PRODUCT, // of a warpgroup
    AT_CLUSTER_BARRIER,
    AT_TENSOR_MEMORY, // until columns are free, or the other block of a pair has called the same
    POLLING, // it has read a value that has not changed since
    DONE
};

struct Thread {
    void* stack_pointer;
    uint3 index;
    Status status;
    bool predicate;      // argument of the barrier it waits at
    int barrier_site;    // site of that barrier or point of convergence
    unsigned warp_mask;  // argument of the warp primitive it waits in, or the lanes it converged with
    uint32_t stamp;      // number of times it has met other threads in this block, acquired or released
    uint32_t met_stamp;  // its stamp when it last learned of others
    uint32_t met_epoch;  // and the epoch, if not by a barrier of the block
    int stack;
    uintptr_t waits_at;     // code address of the call it waits in
    bool has_stored;        // by a strong store, since it was last interrupted
    uint64_t seen_progress; // the launch's, when it last polled
    int polls;              // number of polls since then
    int strong_accesses;    // number since it last let others run
    int same_polls;         // consecutive polls of one address with the same value
    int polled_object;      // number of the barrier object that it polls, from 1; 0: none
    uintptr_t polled;       // address of the word that it read last
    size_t polled_size;
    uint64_t polled_value;  // its value
    bool parked;            // it waits for that word to change
    bool interrupted;       // it does not poll; others run before it continues
    bool has_arrived;        // at the cluster's barrier, without having waited for it
    uint64_t arrived_phase;  // of the cluster's barrier
};

// State of each running block, for the files of the runtime.
struct Order;         // order.cpp
struct Warps;         // warp.cpp
struct NamedBarriers; // named_barriers.cpp
struct SyncObjects;   // sync_objects.cpp
struct AsyncCopies;   // async_copy.cpp
struct BulkCopies;    // bulk_copy.cpp
struct TensorCores;   // tensor_cores.cpp
struct TensorMemory;  // tensor_memory.cpp
struct Cell;          // shadow.h
struct Cluster;       // clusters.cpp
Order* new_order();
Warps* new_warps();
NamedBarriers* new_named_barriers();
SyncObjects* new_sync_objects();
AsyncCopies* new_async_copies();
BulkCopies* new_bulk_copies();
TensorCores* new_tensor_cores();

struct Block {
    uint3 index;
    uint32_t number; // numbered in the order in which blocks begin
    Thread threads[MAX_THREADS];
    int alive;
    int first_stack, free_stacks[MAX_THREADS], free_stack_count;
    bool waits_for_grid;    // all its living threads wait for the grid
    uint64_t seen_progress; // the launch's, when the block was suspended
    // Since then: the range and the number of its polling threads, and whether one of those was interrupted.
    int pollers_from, pollers_to, pollers;
    bool has_interrupted;
    Order* order;
    Warps* warps;
    NamedBarriers* named_barriers;
    SyncObjects* sync_objects;
    AsyncCopies* async_copies;
    BulkCopies* bulk_copies;
    TensorCores* tensor_cores;
    TensorMemory* tensor_memory; // null until it is used
    Cell* shadow; // of its shared memory
    size_t shadow_size;
    uint32_t shadow_since;
    Cluster* cluster; // null: a cluster of one block
    int rank;         // in it
    // While another block runs: its shared memory, in the same layout, and its part of `State`.
    char* shared;
    size_t shared_room;
    uint32_t epoch, block_epoch, shared_since;
    bool crossed;
};

// A __constant__ variable.
struct Constant {
    uintptr_t start;
    size_t size;
};
constexpr int MAX_CONSTANTS = 64;

struct State {
    Launch launch;
    Block* block;    // the running block
    Cluster* cluster; // its cluster, if it has several blocks
    Thread* threads; // its threads
    int thread_count;
    int current;
    bool running;  // fibers are running, not the runtime
    bool checking; // memory hooks are active: a kernel is running

    // Time is counted in epochs of single blocks, which end at the block's barriers, and continues over launches.
    // Accesses before `ordered_epoch` (the begin of this launch, or the last grid barrier) happened before everything
    // that runs now. Epochs from `block_epoch` to `epoch` are those of the running block.
    uint32_t epoch, last_epoch, block_epoch, ordered_epoch;
    // The epochs since which memory counts as unwritten: shared memory since the block began, outputs since the launch.
    uint32_t shared_since, launch_since;
    // For each thread of the block, its stamp when the current thread last learned of it: its accesses with a smaller
    // stamp happened before.
    uint32_t* known;
    bool crossed; // threads of different warps have met in this block, not at the block's barrier
    bool agents;  // agents are used in this launch
    bool sending; // a counted bulk copy is being issued: threads need not wait for its issuer
    int scope;     // scope of the strong access that is being checked
    bool released; // some word has a clock: readers of several blocks may be ordered with a later writer individually
    // Number of strong stores that changed a value, of stores to an array, and of ended threads: a polling thread is
    // resumed when this has changed.
    uint64_t progress;

    int64_t budget_left;
    uintptr_t image, image_size;   // the kernel's shared object
    Constant constants[MAX_CONSTANTS];
    int constant_count;
    uintptr_t data, data_size;     // and its writable part: __device__ and __constant__ variables
    uintptr_t shared, shared_size; // its thread-local segment: every __shared__ variable
    uintptr_t dynamic_shared;      // within that segment
    uintptr_t stacks, stacks_size;
    Report reports[MAX_REPORTS];
    int report_count;
};

extern State state;

inline Thread& current_thread() { return state.threads[state.current]; }

// Also called by matrix_products.cpp, which is linked to the kernels that need it.
#define PEAKGATE_SHARED __attribute__((visibility("default")))

// Records a defect of the current thread; a repeated one at the same locations is only counted. Returns the report if
// it is new.
PEAKGATE_SHARED __attribute__((format(printf, 4, 5))) Report* report(Kind kind, uintptr_t address, uintptr_t other_address,
                                                     const char* format, ...);

// Ends the launch from inside a fiber.
[[noreturn]] PEAKGATE_SHARED void abandon_launch();

void budget_low(uintptr_t caller);

// Every memory access, wait and thread costs one, so that a launch that does not end is detected.
inline void spend_budget(uintptr_t caller) {
    if (__builtin_expect(--state.budget_left < 0, 0)) budget_low(caller);
}

// Checks the values of writes after they are done, since the hook is called before. Called when the budget seems spent,
// so that it costs nothing if there is nothing to check. In a traced launch the budget always seems spent.
bool settle_writes();

// ---- tested_reads.cpp ----
extern int untested_count __attribute__((visibility("hidden")));
// Reports the untested reads of the current thread, when it can no longer test them.
void report_untested_reads();
inline void settle_untested_reads() {
    if (__builtin_expect(untested_count != 0, 0)) report_untested_reads();
}

// ---- order.cpp ----
struct Access;
struct Clock;
// Clocks that threads release and others acquire later (arrival and wait at a barrier).
struct Published {
    uint32_t known[MAX_THREADS + AGENTS];
    Clock* others;
    Clock* across;  // released by threads of other blocks of the cluster
    Clock* arrived; // of threads of other blocks whose arrival released nothing to this one
    bool of_fences; // `others` may have entries of the own block
};
void forget_published(Published& published);
void begin_launch_of_order();
void begin_block_of_order();
void end_block_of_order();
// Sets `state.known` to a thread's clock.
void use_clock_of(int thread);
// All threads of the block have met: a new epoch begins.
void block_met();
void begin_epoch();
uint32_t block_of(uint32_t epoch);
// Some threads of the block have met: their clocks are joined.
void threads_met(const int* threads, int count);
void publish_to(Published& published);
// `narrow`: in block scope, without what other blocks have released.
void acquire_from(const Published& published, int thread, bool narrow = false);
// What a thread knows of an agent of a block; also what it has seen by a relaxed wait if that counts.
uint32_t known_of_agent(uint32_t block, int thread, int agent, bool or_awaits);
// The same of what is published.
uint32_t known_of_agent(uint32_t block, const Clock& published, int agent);
// Adds what is published to a clock.
void add_published(Clock*& to, Clock* published);
// Publishes to threads of another block what is known of one agent.
void publish_agent(Clock*& published, uint32_t block, int agent, uint32_t known);
// Publishes the current thread's clock to threads of another block.
void publish_across(Clock*& published);
// Publishes the current thread's clock at its last fence of a scope; how a relaxed arrival orders.
void publish_fenced(Clock*& published, int scope);
// The current thread has seen, by a relaxed wait, what was published: its next fence acquires it.
void await_published(const Published& published);
// Publishes to other blocks what threads of block `number` have published among themselves in an epoch.
void publish_block(uint32_t number, const Published& among_them, uint32_t epoch, Published& published);
// Whether it includes a thread's accesses at that time; whether the current thread knows anything of a block.
bool has_published(const Published& published, uint32_t number, int thread, uint32_t epoch, uint32_t stamp);
bool knows_of(uint32_t number);
// Begins a new stamp of an agent.
uint32_t new_stamp_of(int agent);
void use_agents(); // from now on the launch has some
// A thread has waited for an agent's accesses with stamps up to this one.
void learn(int thread, int agent, uint32_t stamp);
// The same of an agent of any block.
void learn_of_block(uint32_t block, int thread, int agent, uint32_t stamp);
// Whether a write to shared memory is fenced for asynchronous operations that the current thread starts now.
// `needed`: what the fence must cover.
bool fenced_for_agents(const Block& block, const Access& write, PeakgateProxy needed);
// Whether another block's write to global memory is: by a fence of any thread of that block after it, or of one that knew it.
bool fenced_for_agents_anywhere(const Access& write);
// The effect on order of an atomic, or a strong load or store, by the current thread.
void strong_access(uintptr_t address, bool loads, bool stores, bool compares, int order, int scope);
// True if the current thread has executed a fence that its next strong store releases.
bool has_fenced();
// The current thread has observed a strong store to this word; accesses to it by this thread, and by threads that meet
// it, come after the store.
void observe(const void* cell, const Access& store);
bool has_observed(const void* cell, const Access& store);
// True if a volatile access is ordered after this store anyway: then flags that its thread has read before need no
// fence.
bool awaited_orders(const Access& store, bool by_locks = false);
// True if the program apparently intends the current thread to follow this store, although they are unordered: it has
// observed a later strong store of the same thread, or of its block after a barrier, to another word.
bool meant_to_follow(const void* cell, const Access& store);
enum MissingFence { NO_FENCE, FENCE_OF_WRITER, FENCE_OF_READER };
// Which fence would order an access of another block before the current thread, which has read a strong store that came
// after it; `published_at` becomes the code address of that store, 0 if it is unknown.
MissingFence missing_fence(const Access& earlier, uint32_t& published_at);

// Suspends the current thread until another one makes it ready.
void wait_as(Status status, uintptr_t caller);
// Called before each strong access: lets others run if the current thread only reads unchanged values.
void poll(uintptr_t caller);
// Called after it, with the range and kind of the access.
void polled(uintptr_t address, size_t size, bool loads, bool stores);
// Whether a polling thread may see something new in a turn. One that read a word repeatedly waits for that word, but
// gets a turn now and then, since its loop may read others too.
bool may_see_news(const Block& block, const Thread& thread);

// Removes an ended thread from its warp; the others no longer wait for it.
void leave_warp(int thread);
// Reports threads that wait at named barriers in vain; false if there are none.
bool report_named_barriers();
// __syncthreads is barrier 0 of all threads: reports one that may meet threads at barrier 0 of fewer.
void check_barrier_zero(uintptr_t caller);
void begin_block_of_named_barriers();
// The same for barrier objects in memory.
bool report_sync_objects();
void begin_block_of_sync_objects();
void begin_block_of_warps();

// ---- blocks.cpp ----
// Runs the blocks of the grid; false if memory cannot be allocated.
bool run_grid();
Block* new_block();
void give_back(Block* block);
// Cancels a cluster that has not begun. The response is whether there was one, and the index of its first block.
void cancel_cluster(uint32_t* response);
// Switches to another block of the cluster during its lifetime.
struct InBlock {
    explicit InBlock(Block& block);
    ~InBlock();
    Block* from;
    int thread;
};
// ---- runtime.cpp, for it ----
void set_order(uint32_t schedule);
void begin_threads();
// Runs the current block until it ends, or none of its threads can continue without another block. Polling threads get
// a turn if they may see something new, or if `anyhow`.
void run_threads(bool anyhow);
// Whether a thread of a suspended block polls this word.
bool somebody_else_polls(uintptr_t address);
bool is_abandoned();
// Ends the launch from outside a fiber, with a report of what the threads of this block wait for.
void abandon_stuck();
// Restarts the launch with clusters of this size.
[[noreturn]] void restart_in_clusters(unsigned x, unsigned y, unsigned z);
bool take_restart();

// Maps the memory of a launch and finds the kernel's image; false if memory cannot be allocated. Unmapping follows in
// either case and can first copy the arrays back to the host.
bool map_launch();
// Largest number of threads alive at once, each of which needs a stack.
constexpr size_t MAX_LIVE_THREADS = 16384;
// Makes `count` stacks from `first` on usable; false if memory cannot be allocated.
bool ready_stacks(size_t first, size_t count);
// Saves and restores a block's shared memory.
bool save_shared(Block& block);
void load_shared(const Block& block);
// Copies shared memory, in its layout, to `copy`, which has `room` bytes and is enlarged; null if memory cannot be
// allocated.
char* shared_copy(char* from, size_t& room);
void unmap_launch(bool copy_back);
void begin_heap();
char* stack_top(int stack);
// Fills shared memory with its initial contents.
void poison_shared();

// Checks an access by the runtime on behalf of the kernel, for which there is no hook.
void check_read(const void* address, size_t size, uintptr_t caller);
void check_write(void* address, size_t size, uintptr_t caller);
// An atomic of the device.
void check_update(void* address, size_t size, uintptr_t caller);
// Checks the use of a barrier object in memory.
void check_barrier_object(const void* address, uintptr_t caller);
// Checks a read through the cache of textures and surfaces, which need not see writes of the same launch.
void check_cached_read(const void* address, size_t size, uintptr_t caller);
// Sets the used size of the heap of malloc() in kernels.
void check_heap(uintptr_t start, size_t used);
constexpr size_t HEAP_BYTES = 8 << 20; // CUDA's default
// An asynchronous copy has been issued. Its source may be read at any time until the wait, so it must be in global
// memory now; its destination must not be accessed until then.
void check_async_source(const void* source, size_t size, uintptr_t caller);
void check_async_destination(void* destination, size_t size, uintptr_t caller);
// A read by the copy engine, which needs a fence behind writes of this launch.
void check_copied_from_global(const void* from, size_t size, uintptr_t caller);
// The stack, and with it the thread, that an address on the stacks belongs to.
constexpr size_t STACK_BYTES = 256 << 10;
inline uintptr_t stack_of(uintptr_t address) { return (address - state.stacks) / STACK_BYTES; }

// Prepares the shadow memory of a launch; false if memory cannot be allocated.
bool begin_checks();
// Counts the unwritten bytes of the outputs.
void end_checks();
// ---- clusters.cpp ----
// Number of blocks in a cluster.
uint32_t cluster_blocks();
uint3 index_of_block(uint32_t number);
// The block of this number; creates its cluster if needed. Null if memory cannot be allocated.
Block* block_of_cluster(uint32_t number);
void leave_cluster(Block& block);
void forget_clusters();
// The window with a block's shared memory while another block runs, and the epoch since which it counts as unwritten.
char* window_of(const Block& block);
uint32_t cluster_since(const Block& block);
// A thread ends: a block's shared memory must not be accessed after its last thread has ended.
void end_thread_of_cluster();
// Completes the barrier if all living threads have arrived. Reports a thread that waits in vain; false if there is
// none.
void settle_cluster_barrier(Cluster& cluster);
bool report_cluster_barrier();
// The block whose shared memory contains an address, and the address in that block; other addresses belong to the own
// block.
struct Place {
    Block* block;
    uintptr_t address;
};
Place place_in_cluster(uintptr_t address);
// The address in another block's shared memory that corresponds to one in the own.
uintptr_t address_in(int rank, uintptr_t address);
// The rank of the block whose window contains an address; -1 if none.
int rank_reached(uintptr_t address);
// The word of another block that a cell describes; 0: none.
uintptr_t word_in_cluster(const Cell* cell);
// The current thread accesses another block's shared memory; checks that the block has begun and not ended.
Block& visit(int rank, uintptr_t caller);
// The other block of a pair, whose ranks differ in the last bit (PTX ISA 9.7.16.5.1); null without a cluster of pairs.
Block* other_of_pair();
bool other_of_pair_has_ended();
// A thread of the current block has waited for these arrivals, so that the block ends after them, whatever they order.
void ends_after(Clock* arrivals);

// Marks the guard variables of shared objects as written, since only the compiler's code reads them.
void initialise_guards();
// Provides shadow memory for a block's shared memory; false if memory cannot be allocated.
bool use_shadow_of(Block& block);

// Handles signals that would end the process while a kernel runs (a wild address, a stack overflow) by a report; undone
// after it.
void catch_faults();
void release_faults();
// Address of the kernel's code that a signal interrupted, plus one as in reports; 0 if it is not the kernel's.
uintptr_t interrupted_at(const void* context);
// The same if a function called by the kernel was interrupted: the call, as far as the stack shows it.
uintptr_t called_in_kernel(const void* context);

// Abandons the launch from the handler of this signal.
[[noreturn]] void abandon_launch_from_handler(int signal);

// Starts the timers of a launch; false if the system has none left.
bool start_watchdog();
void stop_watchdog();
// The time limit is exceeded: the launch ends at the next access or wait.
extern volatile bool out_of_time;
void report_out_of_time(uintptr_t at);

// ---- sync_objects.cpp, for copies that count bytes ----
// The current thread announces bytes at the barrier object at this address; returns its number.
int expect_arrival(const void* address, uint32_t bytes, uintptr_t caller);
// The bytes have been sent: the phase ends at the next test if nothing is missing.
void settle_bytes(Block& block, int object);
// One arrival at a barrier object of the cluster when an agent's operations with stamps up to this one are complete. They
// come after all that the current thread knows.
void arrive_for_agent(const void* address, int agent, uint32_t stamp, uintptr_t caller);
// Describes what a barrier object waits for.
void describe_object(int object, char* words, size_t size);
// ---- bulk_copy.cpp ----
// Performs the copies whose bytes arrive at a barrier object; returns whether there were any.
bool complete_bulk_copies(int object, Published& published);
bool has_bulk_copies(const Block& block, int object);
// Where a copy to this address of the block's shared memory has been issued that has not arrived; 0: there is none.
uintptr_t bulk_copy_in_flight(uintptr_t address);
// The same of the copies of one thread, or of all (-1).
uintptr_t async_copy_in_flight(uintptr_t address, int by);
void begin_block_of_bulk_copies();
// Whether other blocks have copies to this one in flight.
bool awaits_copies_of_others(uintptr_t& issued_at);
// Whether a copy from the shared memory of one block of a cluster to another's has not arrived.
bool reads_shared_of(const Block& sender, const Block& receiver, uintptr_t& issued_at);
// A thread ends: its stores are completed.
void end_thread_of_bulk_copies();
// ---- tensor_cores.cpp ----
void begin_block_of_tensor_cores();
// A thread ends: reports products of its warp that were not waited for.
void end_thread_of_tensor_cores();
// The current thread accesses its local memory: reports sums of a product that it has not waited for.
void check_sums(uintptr_t address, size_t size, bool writes, uintptr_t caller);
// ---- tensor_memory.cpp ----
// A relaxed arrival passes on what its thread has fenced of accesses to tensor memory, to threads of its own block.
void publish_tensors(Published& published);
// Passes on the accesses to tensor memory that the current thread knows to be complete, or of these what it has `fenced`,
// to threads of other blocks.
void publish_tensors(Clock*& published, bool fenced);
// The current thread has waited for a barrier at which these accesses to tensor memory were complete, whatever it orders.
void complete_tensors(const Clock* published);
void begin_block_of_tensor_memory(Block& block);
// A thread ends: reports what is allocated if it is the last one.
void end_thread_of_tensor_memory();
// The latest operation of an agent of the other block of the pair that uses the current block's memory, by its stamp and
// code address; 0: none.
uint32_t last_of_peer(int agent, uintptr_t& issued_at);
// Reports a thread that waits at an allocation in vain; false if there is none.
bool report_tensor_memory();
// The current thread starts an agent's operation that reads shared memory until it is waited for.
void check_agent_read(const void* address, size_t size, int agent, uint32_t stamp, uintptr_t caller);
// The same for one that writes: the new contents are valid only once they `arrived`, and the old ones are lost unless it
// `updates` them, which is atomic.
void check_agent_write(void* address, size_t size, int agent, uint32_t stamp, uintptr_t caller, bool updates);
// Called before the copy engine writes to a block's shared memory: reports threads' writes without a proxy fence after them.
void check_refilled(const Block& block, const void* to, size_t size, uintptr_t caller);
void arrived(void* address, size_t size, int agent, uint32_t stamp);

// Performs the copies that complete with a barrier object's phase, before the order that it establishes.
bool has_async_copies(const Block& block, const void* object);
void complete_async_copies(const void* object, Published& published);
// Drops the copies of threads that ended without waiting for them.
void drop_async_copies();

} // namespace peakgate
