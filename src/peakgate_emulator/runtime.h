// State shared by the files of the runtime: that of the one launch that may run at a time.
#pragma once

#define PEAKGATE_RUNTIME
#include "runtime_api.h"

#include <stdlib.h>

#define PEAKGATE_CALLER reinterpret_cast<uintptr_t>(__builtin_return_address(0))

namespace peakgate {

// Puts an item behind those of a list, which has room for some and grows where it has none left.
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
// An engine that performs asynchronous operations: it has a clock of its own, which others join by waiting for it.
// Copies to shared memory by barrier object, copies from it and products by warp.
constexpr int AGENTS_OF_A_KIND = 32, AGENTS = 3 * AGENTS_OF_A_KIND;
enum AgentKind { LOADS, STORES, PRODUCTS };
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
    UNWRITTEN_OUTPUT, // found by launch.py
    SAME_VALUE_RACE,
    UNINITIALISED_GLOBAL,
    NONFINITE,
    NOT_EMULATED, // no defect of the kernel
    REGISTER_RACE,
    NOT_ENDED, // within the time that the launch may take: no defect that is known
};

// Read by launch.py (binary.py). Code addresses are relative to the kernel's image, 0 if there is none.
struct Report {
    int32_t kind;
    int32_t count;
    uint64_t address, other_address;
    uint3 thread, block, other_thread;
    int32_t has_other_thread;
    char message[200];
};

// An array argument, filled in by launch.py but for `device`, which comes first: its address is the kernel's argument.
struct Buffer {
    void* device;
    void* host;
    uint64_t size;
    int32_t argument;
    int32_t writable;
    int32_t is_output;     // nothing in it may be read before it is written, and all of it is to be written
    int32_t floating_size; // bytes of a floating-point element, whose NaNs and infinities are reported; 0: they are not
    uint64_t not_finite;   // the bits of such an element that are all set in a NaN or an infinity, and in no other
    uint64_t unwritten, first_unwritten; // out: bytes of an output that the launch did not write, and the first
};

// Location of a pointer to an array in another array (`holder`) or in a value (`value`), filled in by launch.py.
struct Slot {
    char* value;
    const Buffer* holder; // null: it is in a value
    uint64_t offset;
    const Buffer* target;
};

// A texture or surface object, filled in by launch.py (textures.py); its address is the kernel's argument. Its texels are
// those of an array, row by row.
enum TexelKind : int32_t { UNSIGNED_TEXEL, SIGNED_TEXEL, FLOATING_TEXEL };
enum AddressMode : int32_t { WRAP, CLAMP, MIRROR, BORDER }; // CUDA's numbers
struct Texture {
    Buffer* buffer;
    int32_t dimensions; // 0: linear memory
    int32_t size[3];    // width, height, depth; 1 where there is none
    int32_t layers;     // 0: not layered
    int32_t channels, channel_bytes;
    TexelKind kind;
    AddressMode address;
    int32_t linear, normalized_coordinates, normalized_values, is_surface;
};

// How the copy engine sees an array, filled in by launch.py; the kernel's argument names it. Axes count from the contiguous
// one on.
constexpr int MAX_AXES = 5;
struct TensorMap {
    Buffer* buffer;
    int32_t axes, element_bytes;
    uint64_t extents[MAX_AXES]; // in elements
    uint64_t strides[MAX_AXES]; // in bytes
    int32_t box[MAX_AXES];      // elements that one copy moves
    int32_t swizzle;            // bytes within which units of 16 bytes change places; 0: none
};

// One access to the shared memory of the block that is traced; read by defects.py.
struct Traced {
    uint32_t epoch, thread, offset, size, address;
    uint32_t manner; // 1: a write, 2: atomic, 4: an asynchronous copy was issued, 8: `offset` counts from the dynamic part
};

// A __device__ or __constant__ variable of the kernel's image, where others follow it only behind a gap (binary.py).
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
    int64_t limit_ms; // of processor time
    int32_t cooperative; // all blocks are alive at once, so that they may meet
    int64_t access_budget;
    char* (*dynamic_shared)();
    Texture* textures;
    int32_t texture_count;
    uint32_t trace_block[3]; // whose accesses to shared memory are traced
    Traced* trace;           // null: none
    uint64_t trace_room;
    uint64_t* traced; // out: how many there were, also those beyond the room
    const uint64_t* guards; // offsets in shared memory of the guard variables that g++ gives objects with a constructor
    int32_t guard_count;
    const Slot* slots;
    int32_t slot_count;
    int32_t variable_count;
    const Variable* variables; // by their places in the image
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
    AT_PRODUCT, // of a group of four warps
    AT_CLUSTER_BARRIER,
    POLLING, // it has read what nobody has changed since
    DONE
};

struct Thread {
    void* stack_pointer;
    uint3 index;
    Status status;
    bool predicate;      // given to the barrier it waits at
    int barrier_site;    // which barrier or point of convergence that is
    unsigned warp_mask;  // given to the warp primitive it waits in, or the lanes it converged with
    uint32_t stamp;      // how often it has met other threads in this block, or released what it did
    uint32_t met_stamp;  // the stamp that it had when it last heard of others
    int stack;
    uintptr_t waits_at;     // code address of the call it waits in
    bool has_stored;        // strongly, since it was last interrupted
    uint64_t seen_progress; // the launch's, when it last polled
    int polls;              // since then
    int strong_accesses;    // since it last let others run at one
    int same_polls;         // polls running of one place that gave the same value
    int polled_object;      // the barrier object that it polls, counted from 1; 0: none
    uintptr_t polled;       // the word that it read last
    size_t polled_size;
    uint64_t polled_value;  // and what was there
    bool parked;            // it waits for that word to change: nothing else makes its poll succeed
    bool interrupted;       // it polls nothing: others are to run before it goes on
    bool has_arrived;        // at the cluster's barrier, and has not waited for it
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
struct Cell;          // shadow.h
struct Cluster;       // clusters.cpp
Order* new_order();
Warps* new_warps();
NamedBarriers* new_named_barriers();
SyncObjects* new_sync_objects();
AsyncCopies* new_async_copies();
BulkCopies* new_bulk_copies();
TensorCores* new_tensor_cores();
// sums += a . b of a warp's rows; the rows of both are 32 bytes along k, the sums those of all lanes (matrix_products.cpp).
void multiply_group(const PeakgateProduct& product, const unsigned char* a, const unsigned char* b, uint32_t* sums);

struct Block {
    uint3 index;
    uint32_t number; // in the order in which blocks begin
    Thread threads[MAX_THREADS];
    int alive;
    int first_stack, free_stacks[MAX_THREADS], free_stack_count;
    bool waits_for_grid;    // all its threads that live do
    uint64_t seen_progress; // the launch's, when it was set aside
    // Since then: between which its threads poll, how many do, and whether one of those was interrupted.
    int pollers_from, pollers_to, pollers;
    bool has_interrupted;
    Order* order;
    Warps* warps;
    NamedBarriers* named_barriers;
    SyncObjects* sync_objects;
    AsyncCopies* async_copies;
    BulkCopies* bulk_copies;
    TensorCores* tensor_cores;
    Cell* shadow; // of its shared memory
    size_t shadow_size;
    uint32_t shadow_since;
    Cluster* cluster; // null: it is one of its own
    int rank;         // in it
    // While another block runs: its shared memory, laid out as where it runs, and its part of `State`.
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
    Block* block;    // the one that runs
    Cluster* cluster; // its, if it has several blocks
    Thread* threads; // its threads
    int thread_count;
    int current;
    bool running;  // fibers are: the runtime is not at work itself
    bool checking; // memory hooks are live: a kernel is running

    // Time is counted in epochs, each of one block, which its barriers end; it goes on from launch to launch. What came
    // before `ordered_epoch` (this launch, the last barrier of the grid) has happened before all that runs now. All epochs
    // from `block_epoch` to `epoch` are those of the block that runs.
    uint32_t epoch, last_epoch, block_epoch, ordered_epoch;
    // Since when memory counts as never written: shared memory since the block began, outputs since the launch.
    uint32_t shared_since, launch_since;
    // Of each thread of the block, the number of times it had met others when the current thread last heard of it: what
    // it did with a smaller stamp has happened before.
    uint32_t* known;
    bool crossed; // threads of different warps have met in this block other than at the block's barrier
    bool agents;  // some are at work in this launch
    bool sending; // a copy by the engine is being issued, whose bytes are counted: nobody has to wait for who issued it
    int scope;     // of the strong access that is being checked
    bool released; // some word has a clock: readers of several blocks may be ordered with a later writer one by one
    // Count of strong stores that changed a value, stores to an array, and ended threads: a thread that
    // polls is worth running again when this has changed.
    uint64_t progress;

    int64_t budget_left;
    uintptr_t image, image_size;   // the kernel's shared object
    Constant constants[MAX_CONSTANTS];
    int constant_count;
    uintptr_t data, data_size;     // and what of it may be written: __device__ and __constant__ variables
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

void budget_low(uintptr_t caller);

// Every memory access, every wait and every thread costs one: a launch that cannot end is found out.
inline void spend_budget(uintptr_t caller) {
    if (__builtin_expect(--state.budget_left < 0, 0)) budget_low(caller);
}

// Looks at the value of a write once it is done: the hook comes before it. Called when the budget seems to be spent, so
// that it costs nothing where there is nothing to look at. A traced launch has the budget seem spent all the time.
bool settle_writes();

// ---- tested_reads.cpp ----
extern int untested_count __attribute__((visibility("hidden")));
// Reports those of the current thread, which comes to where it can test them no more.
void report_untested_reads();
inline void settle_untested_reads() {
    if (__builtin_expect(untested_count != 0, 0)) report_untested_reads();
}

// ---- order.cpp ----
struct Access;
struct Clock;
// State that a thread releases and others acquire later (a barrier that is arrived at and waited for).
struct Published {
    uint32_t known[MAX_THREADS + AGENTS];
    Clock* others;
};
void forget_published(Published& published);
void begin_launch_of_order();
void begin_block_of_order();
void end_block_of_order();
// Sets which thread's knowledge `state.known` is.
void use_clock_of(int thread);
// All threads of the block have met: a new epoch begins.
void block_met();
void begin_epoch();
uint32_t block_of(uint32_t epoch);
// Some threads of the block have met: what any of them did so far, and what they had heard of, is now known to all.
void threads_met(const int* threads, int count);
void publish_to(Published& published);
void acquire_from(const Published& published, int thread);
// The same between blocks: what the current thread knows, to threads of another block.
void publish_across(Published& published);
// What the current thread had fenced when it fenced last.
void publish_fenced(Published& published);
// To other blocks what threads of the one of this number have published among themselves in an epoch.
void publish_block(uint32_t number, const Published& among_them, uint32_t epoch, Published& published);
// Whether it has what a thread of a block did at that time; whether the current thread knows anything of a block.
bool has_published(const Published& published, uint32_t number, int thread, uint32_t epoch, uint32_t stamp);
bool knows_of(uint32_t number);
// A new stamp of an agent: of what it does until its next one.
uint32_t new_stamp_of(int agent);
// A thread has waited for what an agent did with stamps up to this one.
void learn(int thread, int agent, uint32_t stamp);
// Whether what a thread wrote to shared memory is fenced for asynchronous operations that the current thread starts now.
// `of_barriers`: a fence for barrier objects that were initialised will do.
bool fenced_for_agents(const Block& block, const Access& write, bool of_barriers);
// Ordering by an atomic, or a strong load or store, of the current thread.
void strong_access(uintptr_t address, bool loads, bool stores, bool compares, int order, int scope);
// True if the current thread has executed a fence that its next strong store releases.
bool has_fenced();
// The current thread has seen a strong store to this word; what it or who meets it does there comes after it.
void observe(const void* cell, const Access& store);
bool has_observed(const void* cell, const Access& store);
// True if a volatile access is ordered after this store anyway: flags that its thread has read before need no fence then.
bool awaited_orders(const Access& store);
// True if the program intends the current thread to follow this store, though nothing orders the two: it has seen a later
// strong store of the same thread, or of its block behind a barrier, to another word.
bool meant_to_follow(const void* cell, const Access& store);

// Sets the current thread aside until another has made it ready again.
void wait_as(Status status, uintptr_t caller);
// Comes before each strong access: lets others run where the current thread does nothing but read what does not change.
void poll(uintptr_t caller);
// Comes after it: what the access may change, and whether it reads.
void polled(uintptr_t address, size_t size, bool loads, bool stores);
// Whether a turn of a thread that polls may show it something new. One that read a word again and again waits for that word;
// once in a while it has a turn all the same, for its loop may look at others too.
bool may_see_news(const Block& block, const Thread& thread);

// Takes a thread that has ended out of its warp; the others no longer wait for it.
void leave_warp(int thread);
// Reports threads that wait at named barriers which never fill up; false if there are none.
bool report_named_barriers();
void begin_block_of_named_barriers();
// The same for barriers that are objects in memory.
bool report_sync_objects();
void begin_block_of_sync_objects();
void begin_block_of_warps();

// ---- blocks.cpp ----
// Runs the blocks of the grid; false if there is no memory.
bool run_grid();
Block* new_block();
void give_back(Block* block);
// Something is done in another block of the cluster while this lives.
struct InBlock {
    explicit InBlock(Block& block);
    ~InBlock();
    Block* from;
    int thread;
};
// ---- runtime.cpp, for it ----
void set_order(uint32_t schedule);
void begin_threads();
// Runs the current block until it ends, or none of its threads can go on without another block. Threads that poll have a turn
// where they may see news; `anyhow`, all of them.
void run_threads(bool anyhow);
bool is_abandoned();
// Ends the launch from outside of a fiber, with a report of what the threads of this block wait for.
void abandon_stuck();
// Begins it anew: blocks are in clusters of this size.
[[noreturn]] void restart_in_clusters(unsigned x, unsigned y, unsigned z);
bool take_restart();

// Maps what a launch needs and finds the kernel's image; false if memory cannot be had. Unmapping comes after it in
// either case and, if asked to, first copies the arrays back to the host.
bool map_launch();
// The most threads that are alive at once: each needs a stack of its own.
constexpr size_t MAX_LIVE_THREADS = 16384;
// So many stacks from `first` on; false if there is no memory.
bool ready_stacks(size_t first, size_t count);
// Puts a block's shared memory aside, and back.
bool save_shared(Block& block);
void load_shared(const Block& block);
// Memory that is laid out as shared memory is where a block runs, of `room` bytes already; null: there is none.
char* shared_copy(char* from, size_t& room);
void unmap_launch(bool copy_back);
void begin_heap();
char* stack_top(int stack);
// Fills shared memory as a block finds it.
void poison_shared();

// Checks a range that compiled hooks do not see: it is accessed by the runtime on behalf of the kernel.
void check_read(const void* address, size_t size, uintptr_t caller);
void check_write(void* address, size_t size, uintptr_t caller);
// Use of a barrier that is an object in memory.
void check_barrier_object(const void* address, uintptr_t caller);
// A read through the cache of textures and surfaces, which does not see what its own launch writes.
void check_cached_read(const void* address, size_t size, uintptr_t caller);
// So much of the heap that malloc() in a kernel takes from is in use.
void check_heap(uintptr_t start, size_t used);
constexpr size_t HEAP_BYTES = 8 << 20; // CUDA's default
// An asynchronous copy has been issued. Its source is read at some time until it is waited for, if it ever is, so it has
// to lie in global memory by now; nobody may touch its destination until then.
void check_async_source(const void* source, size_t size, uintptr_t caller);
void check_async_destination(void* destination, size_t size, uintptr_t caller);

// Prepares the shadow memory of a launch; false if the memory for it cannot be had.
bool begin_checks();
// Counts what of the outputs was not written.
void end_checks();
// ---- clusters.cpp ----
// How many blocks are in a cluster.
uint32_t cluster_blocks();
// The block of this number, whose cluster begins with it or has begun; null: there is no memory.
Block* block_of_cluster(uint32_t number);
void leave_cluster(Block& block);
void forget_clusters();
// Where a block's shared memory is while another runs, and since when it counts as never written.
char* window_of(const Block& block);
uint32_t cluster_since(const Block& block);
// A thread ends: nobody may reach the shared memory of a block whose last thread has ended.
void end_thread_of_cluster();
// The barrier: all threads that live may have arrived. Reports one that waits in vain; false if there is none.
void settle_cluster_barrier(Cluster& cluster);
bool report_cluster_barrier();
// Whose shared memory an address is in, and what it is for that block; anything else belongs to the own block.
struct Place {
    Block* block;
    uintptr_t address;
};
Place place_in_cluster(uintptr_t address);
// An address in the own shared memory, in that of another block.
uintptr_t address_in(int rank, uintptr_t address);
// The rank of the block whose window an address is in; -1: none, as where there is no cluster.
int rank_reached(uintptr_t address);
// The word of another block's that a cell is about; 0: none.
uintptr_t word_in_cluster(const Cell* cell);
// The current thread reaches into shared memory of a block, which has to be there.
Block& visit(int rank, uintptr_t caller);

// Counts the guard variables of shared objects as written: only the compiler's code reads them.
void initialise_guards();
// Shadow memory for a block's shared memory; false if the memory for it cannot be had.
bool use_shadow_of(Block& block);

// Turns what would end the process while a kernel runs (a wild address, a full stack) into a report; undone after it.
void catch_faults();
void release_faults();
// The kernel's code a signal interrupted, as reports give addresses (one past it); 0 where that is not the kernel's.
uintptr_t interrupted_at(const void* context);
// The same where what the kernel has called was interrupted: the call, as far as the stack shows it.
uintptr_t called_in_kernel(const void* context);

// Abandons the launch from the handler of this signal.
[[noreturn]] void abandon_launch_from_handler(int signal);

// Watches over a launch; false if the system has no timer for it.
bool start_watchdog();
void stop_watchdog();
// The time is over: the launch ends at the next access or wait.
extern volatile bool out_of_time;
void report_out_of_time(uintptr_t at);

// ---- sync_objects.cpp, for copies that count bytes ----
// The number of the barrier object at this address, at which the current thread has so many bytes arrive.
int expect_arrival(const void* address, uint32_t bytes, uintptr_t caller);
// They have been sent: the phase ends at the next look at it where nothing is missing any more.
void settle_bytes(Block& block, int object);
// What of a barrier object is missing, in words.
void describe_object(int object, char* words, size_t size);
// ---- bulk_copy.cpp ----
// Performs the copies whose bytes arrive at a barrier object; whether there were any.
bool complete_bulk_copies(int object, Published& published);
bool has_bulk_copies(const Block& block, int object);
void begin_block_of_bulk_copies();
// Whether other blocks have copies under way to this one.
bool awaits_copies_of_others(uintptr_t& issued_at);
// A thread ends: what it stores arrives all the same.
void end_thread_of_bulk_copies();
// ---- tensor_cores.cpp ----
void begin_block_of_tensor_cores();
// A thread ends: its warp's products should have been waited for.
void end_thread_of_tensor_cores();
// An asynchronous operation of an agent that the current thread starts: it reads shared memory until it is waited for.
void check_agent_read(const void* address, size_t size, int agent, uint32_t stamp, uintptr_t caller);
// The same for one that writes: what is there is lost, and the new contents are there only once they `arrived`.
void check_agent_write(void* address, size_t size, int agent, uint32_t stamp, uintptr_t caller);
void arrived(void* address, size_t size, int agent, uint32_t stamp);

// Performs the copies that are there with a barrier object's phase; what it orders comes after them.
bool has_async_copies(const Block& block, const void* object);
void complete_async_copies(const void* object, Published& published);
// Forgets the copies of threads that ended without waiting for them.
void drop_async_copies();

} // namespace peakgate
