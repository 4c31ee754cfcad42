// Runs a block: every CUDA thread is a fiber, and a barrier is a switch to the next fiber. Nothing runs in parallel, so
// the thread order is decided here and can be varied.
#include "runtime.h"

#include "fiber.h"

#include <stdio.h>
#include <string.h>

#define PEAKGATE_BUILTIN(name) unsigned name##_x, name##_y, name##_z
PEAKGATE_BUILTIN(peakgate_thread);
PEAKGATE_BUILTIN(peakgate_block);
PEAKGATE_BUILTIN(peakgate_block_size);
PEAKGATE_BUILTIN(peakgate_grid_size);
unsigned peakgate_own_window;
PEAKGATE_API unsigned peakgate_carry;
unsigned peakgate_carry;

namespace peakgate {

State state;

namespace {

void* main_stack_pointer;
int order[MAX_THREADS];    // threads in the order in which they run
int position[MAX_THREADS]; // position of each thread in it
uint3 indices[MAX_THREADS];
int barrier_result[4];
long long clock_ticks;
bool abandoned, restarts;
uint32_t preempt_random;
int preempt_count;
int left_count; // number of times that a block was left for one that waits for it
bool leaving;

// A thread lets others run after PATIENCE strong reads without any change; and lets other blocks run after reading the
// same value from one address SAME_PATIENCE times, whatever else changed (a loop may write while it polls).
constexpr int PATIENCE = 4, SAME_PATIENCE = 256;
// A thread that read the same value from one address so often waits for that word. After MUCH_PROGRESS it gets a turn
// anyway.
constexpr int PARKING = 2;
constexpr uint64_t MUCH_PROGRESS = 4096;
// Largest number of strong accesses in a thread's turn, even if they change something: another thread may have to end
// its loop.
constexpr int LONG_TURN = 65536;

// The last strong store, if not yet evaluated, and the value that it replaced.
struct {
    uintptr_t address;
    size_t size; // 0: none
    uint64_t before;
} stored;

// ---- scheduling ----

void run_thread();

void make_current(int thread) {
    state.current = thread;
    const uint3& index = state.threads[thread].index;
    peakgate_thread_x = index.x;
    peakgate_thread_y = index.y;
    peakgate_thread_z = index.z;
    use_clock_of(thread);
}

void start_on_new_stack(int thread) {
    Thread& started = state.threads[thread];
    Block& block = *state.block;
    started.stack = block.first_stack + block.free_stacks[--block.free_stack_count];
    started.stack_pointer = peakgate_new_fiber(stack_top(started.stack), run_thread);
    started.status = READY;
}

// Whether two threads may not meet where they wait. Sites are those of __syncthreads and the like, which all threads of a
// block must reach together, or below 0 those of inline PTX, where whole warps may come from different ones.
bool apart(int one, int other) {
    const int a = state.threads[one].barrier_site, b = state.threads[other].barrier_site;
    return a != b && (a >= 0 || b >= 0 || one / WARP == other / WARP);
}

// Releases the threads if all living ones wait at the same barrier.
bool release_barrier() {
    int waiting = 0, count = 0, first = -1, of_warp = -1, astray = -1;
    for (int i = 0; i < state.thread_count; ++i) {
        const Thread& thread = state.threads[i];
        if (thread.status != AT_BARRIER) continue;
        ++waiting;
        count += thread.predicate;
        if (first < 0) first = i;
        if (of_warp < 0 || of_warp / WARP != i / WARP) of_warp = i;
        if (astray < 0 && (apart(first, i) || apart(of_warp, i))) astray = i;
    }
    if (waiting == 0 || waiting < state.block->alive) return false;
    if (astray >= 0) {
        const Thread& other = state.threads[astray];
        make_current(first);
        Report* noted = report(DIVERGENT_BARRIER, current_thread().waits_at, other.waits_at,
                               "threads of one block wait at different barriers");
        if (noted) {
            noted->has_other_thread = 1;
            noted->other_thread = other.index;
        }
        abandon_launch();
    }
    for (int i = 0; i < state.thread_count; ++i) {
        if (state.threads[i].status == AT_BARRIER) state.threads[i].status = READY;
    }
    barrier_result[PEAKGATE_BARRIER_COUNT] = count;
    barrier_result[PEAKGATE_BARRIER_AND] = count == waiting;
    barrier_result[PEAKGATE_BARRIER_OR] = count > 0;
    block_met();
    return true;
}

// Releases lanes that no other lane of their warp can join any more, all that wait at one site together.
bool release_converging() {
    bool any = false;
    for (int i = 0; i < state.thread_count; ++i) {
        if (state.threads[i].status != CONVERGING) continue;
        const int first = i - i % WARP, end = first + WARP < state.thread_count ? first + WARP : state.thread_count;
        unsigned together = 0;
        for (int lane = i; lane < end; ++lane) {
            const Thread& other = state.threads[lane];
            if (other.status == CONVERGING && other.barrier_site == state.threads[i].barrier_site)
                together |= 1u << (lane - first);
        }
        for (int lane = end; lane-- > i;) {
            if (!(together >> (lane - first) & 1)) continue;
            state.threads[lane].warp_mask = together;
            state.threads[lane].status = READY;
        }
        any = true;
    }
    return any;
}

int runnable_after(int place) {
    for (int step = 0; step < state.thread_count; ++step) {
        if (++place == state.thread_count) place = 0;
        const int thread = order[place];
        if (state.threads[thread].status <= READY) return thread;
    }
    return -1;
}

// Counts the last strong store as progress if it has changed its word, whose address it returns; 0 otherwise.
uintptr_t settle_stored() {
    if (!stored.size) return 0;
    uint64_t after = 0;
    memcpy(&after, reinterpret_cast<const void*>(stored.address), stored.size < 8 ? stored.size : 8);
    const bool changed = after != stored.before || stored.size > 8;
    state.progress += changed;
    stored.size = 0;
    return changed ? stored.address : 0;
}

// The next polling thread for which something may have changed.
int poller_after(int place) {
    settle_stored();
    for (int step = 1; step <= state.thread_count; ++step) {
        const int number = order[(place + step) % state.thread_count];
        Thread& thread = state.threads[number];
        if (thread.status != POLLING || thread.seen_progress == state.progress || thread.interrupted) continue;
        if (thread.parked ? !may_see_news(*state.block, thread) : thread.same_polls >= SAME_PATIENCE) continue;
        thread.status = READY;
        return number;
    }
    return -1;
}

// Reports what the deadlocked threads of the block wait for.
void report_waiting() {
    if (report_tensor_memory() || report_named_barriers() || report_sync_objects() || (state.cluster && report_cluster_barrier())) return;
    for (int i = 0; i < state.thread_count; ++i) {
        if (state.threads[i].status != AT_PRODUCT) continue;
        make_current(i);
        report(WARP_MASK, current_thread().waits_at, 0, "waits for a product (wgmma) that not all four warps of its group issue");
        return;
    }
    for (int i = 0; i < state.thread_count; ++i) {
        if (state.threads[i].status != IN_WARP) continue;
        make_current(i);
        const unsigned mask = current_thread().warp_mask;
        char lanes[48] = "all 32 lanes of its warp";
        if (mask != ~0u) snprintf(lanes, sizeof lanes, "the lanes of mask %#x (bit n: lane n)", mask);
        const int first = i / WARP * WARP;
        uintptr_t elsewhere = 0; // where one of the lanes waits for something else
        for (int lane = 0; lane < WARP && first + lane < state.thread_count; ++lane) {
            const Thread& other = state.threads[first + lane];
            const bool waits = other.status != NEW && other.status != READY && other.status != DONE;
            if ((mask >> lane & 1) && waits && other.waits_at != current_thread().waits_at) elsewhere = other.waits_at;
        }
        report(WARP_MASK, current_thread().waits_at, elsewhere, "waits for %s, some of which never arrive", lanes);
        return;
    }
    report(DIVERGENT_BARRIER, current_thread().waits_at, 0, "threads wait for the grid, but others of their block never arrive");
}

// The thread that runs next; -1 if the block has ended, or waits for other blocks.
int next_thread() {
    const int next = runnable_after(position[state.current]);
    if (next >= 0 || state.block->alive == 0) return next;
    if (release_converging() || release_barrier()) return runnable_after(state.thread_count - 1);
    const int poller = poller_after(position[state.current]);
    if (poller >= 0) return poller;
    int at_grid_barrier = 0;
    for (int i = 0; i < state.thread_count; ++i) {
        if (state.threads[i].status == POLLING) return -1;
        at_grid_barrier += state.threads[i].status == AT_GRID_BARRIER;
    }
    if (at_grid_barrier == state.block->alive) return -1;
    if (state.cluster) return -1; // another block of the cluster may change that
    report_waiting();
    abandon_launch();
}

// ---- a thread's life ----

// Returns its number.
int end_thread() {
    spend_budget(0);
    settle_untested_reads();
    end_thread_of_bulk_copies();
    end_thread_of_tensor_cores();
    end_thread_of_tensor_memory();
    if (state.cluster) end_thread_of_cluster();
    const int ended = state.current;
    state.threads[ended].status = DONE;
    --state.block->alive;
    ++state.progress;
    if (state.cluster) settle_cluster_barrier(*state.cluster);
    leave_warp(ended);
    return ended;
}

// Continues with another thread, or the runtime (-1), after the stack of an ended one has been given back.
[[noreturn]] void leave_to(int next, int ended) {
    Block& block = *state.block;
    block.free_stacks[block.free_stack_count++] = state.threads[ended].stack - block.first_stack;
    if (next >= 0 && state.threads[next].status == NEW) start_on_new_stack(next);
    if (next >= 0) make_current(next);
    void* discarded;
    peakgate_switch(&discarded, next >= 0 ? state.threads[next].stack_pointer : main_stack_pointer);
    __builtin_unreachable();
}

// Entry point of a fiber. An ended thread's stack, which is still cached, is used by the next thread that has not
// begun.
void run_thread() {
    for (;;) {
        state.launch.call(state.launch.arguments);
        const int ended = end_thread();
        const int next = next_thread();
        if (next >= 0 && state.threads[next].status == NEW) {
            state.threads[next].status = READY;
            state.threads[next].stack = state.threads[ended].stack;
            make_current(next);
            continue;
        }
        leave_to(next, ended);
    }
}

void run_from(int thread) {
    if (state.threads[thread].status == NEW) start_on_new_stack(thread);
    make_current(thread);
    state.checking = true;
    state.running = true;
    peakgate_switch(&main_stack_pointer, state.threads[thread].stack_pointer);
    state.running = false;
    state.checking = false;
}

} // namespace

// The first shuffle has the warps in descending order, so that in it or in ascending order each warp runs before each
// other.
void set_order(uint32_t schedule) {
    const int count = state.thread_count;
    const bool warps_descend = schedule == 2;
    for (int i = 0; i < count; ++i) order[i] = schedule == 1 || warps_descend ? count - 1 - i : i;
    uint32_t random = schedule * 2654435761u;
    for (int i = count - 1; i > 0 && schedule > 1; --i) {
        random = random * 1664525u + 1013904223u;
        int first = 0; // first of a group that is permuted
        if (warps_descend) first = i > (count - 1) % WARP ? i - (i - 1 - (count - 1) % WARP) % WARP : 0;
        const int other = first + static_cast<int>((random >> 8) % static_cast<uint32_t>(i - first + 1));
        const int swapped = order[i];
        order[i] = order[other];
        order[other] = swapped;
    }
    const uint32_t* size = state.launch.block;
    for (int i = 0; i < count; ++i) {
        position[order[i]] = i;
        const auto thread = static_cast<uint32_t>(i);
        indices[i] = {thread % size[0], thread / size[0] % size[1], thread / (size[0] * size[1])};
    }
}

void begin_threads() {
    Block& block = *state.block;
    const int count = state.thread_count;
    begin_block_of_order();
    begin_epoch();
    state.block_epoch = state.epoch;
    state.shared_since = block.cluster ? cluster_since(block) : state.epoch;
    poison_shared();
    drop_async_copies();
    block.alive = count;
    block.free_stack_count = 0;
    for (int i = count; i-- > 0;) block.free_stacks[block.free_stack_count++] = i;
    for (int i = 0; i < count; ++i) {
        block.threads[i] = {};
        block.threads[i].index = indices[i];
    }
    begin_block_of_warps();
    begin_block_of_named_barriers();
    begin_block_of_sync_objects();
    begin_block_of_bulk_copies();
    begin_block_of_tensor_cores();
    begin_block_of_tensor_memory(*state.block);
}

bool may_see_news(const Block& block, const Thread& thread) {
    if (!thread.parked || state.progress - thread.seen_progress >= MUCH_PROGRESS) return true;
    if (&block != state.block && thread.polled - state.shared < state.shared_size) return false; // suspended
    uint64_t value = 0;
    memcpy(&value, reinterpret_cast<const void*>(thread.polled), thread.polled_size);
    return value != thread.polled_value;
}

void run_threads(bool anyhow) {
    for (int i = 0; i < state.thread_count; ++i) {
        Thread& thread = state.threads[i];
        if (thread.status == POLLING && (anyhow || may_see_news(*state.block, thread))) thread.status = READY;
    }
    state.current = order[state.thread_count - 1];
    const int first = next_thread();
    if (first >= 0) run_from(first);
    settle_stored();
}

bool is_abandoned() { return abandoned; }

void abandon_stuck() {
    report_waiting();
    abandoned = true;
}

void restart_in_clusters(unsigned x, unsigned y, unsigned z) {
    peakgate_cluster_size_x = x;
    peakgate_cluster_size_y = y;
    peakgate_cluster_size_z = z;
    restarts = true;
    state.released = true; // readers of several blocks are recorded
    abandon_launch();
}

bool take_restart() {
    const bool wanted = restarts;
    restarts = false;
    if (wanted) abandoned = false;
    return wanted;
}

// In every order of threads but the first: whether others run before this strong access, if the thread has stored
// something. Without interruptions others would only see a thread's last store.
bool preempted(Thread& self) {
    constexpr int ONE_IN = 4, MOST = 5000; // switches between blocks are expensive
    if (!self.has_stored) return false;
    preempt_random = preempt_random * 1664525u + 1013904223u;
    self.has_stored = preempt_random >> 16 >= 65536u / ONE_IN || preempt_count++ >= MOST;
    return !self.has_stored;
}

// In a shuffled thread order: whether blocks that wait for a word run as soon as it has changed, before the other threads
// of this block.
static bool leaves_block(uintptr_t changed) {
    constexpr int MOST = 200; // the block's shared memory is copied
    if (!changed || state.launch.schedule < 2 || state.cluster || left_count >= MOST || !somebody_else_polls(changed)) return false;
    ++left_count;
    return true;
}

void poll(uintptr_t caller) {
    leaving = leaves_block(settle_stored());
    Thread& self = current_thread();
    if (self.seen_progress != state.progress) {
        self.seen_progress = state.progress;
        self.polls = 0;
    }
    self.interrupted = leaving || (state.launch.schedule && preempted(self)) || ++self.strong_accesses >= LONG_TURN;
    if (++self.polls < PATIENCE && self.same_polls < SAME_PATIENCE && !self.interrupted) return;
    self.parked = self.same_polls >= PARKING && !self.interrupted && !self.polled_object && !state.cluster;
    wait_as(POLLING, caller);
    self.seen_progress = state.progress;
    self.polls = PATIENCE;
    self.strong_accesses = 0;
}

void polled(uintptr_t address, size_t size, bool loads, bool stores) {
    uint64_t value = 0;
    const size_t looked_at = size < 8 ? size : 8;
    memcpy(&value, reinterpret_cast<const void*>(address), looked_at);
    if (stores) {
        stored = {address, size, value};
        current_thread().has_stored = true;
    }
    if (!loads) return;
    Thread& self = current_thread();
    self.same_polls = self.polled == address && self.polled_value == value ? self.same_polls + 1 : 0;
    self.polled = address;
    self.polled_size = looked_at;
    self.polled_value = value;
}

void wait_as(Status status, uintptr_t caller) {
    spend_budget(caller);
    if (status != POLLING && status != IN_WARP) settle_untested_reads();
    const int waiting = state.current;
    Thread& self = state.threads[waiting];
    self.status = status;
    self.waits_at = caller;
    const int next = leaving ? -1 : next_thread();
    leaving = false;
    if (next < 0) { // another block runs
        peakgate_switch(&self.stack_pointer, main_stack_pointer);
        return;
    }
    if (state.threads[next].status == NEW) start_on_new_stack(next);
    make_current(next);
    if (next != waiting) peakgate_switch(&self.stack_pointer, state.threads[next].stack_pointer);
}

void abandon_launch() {
    abandoned = true;
    settle_writes();
    void* discarded;
    peakgate_switch(&discarded, main_stack_pointer);
    __builtin_unreachable();
}

int64_t traced_budget;

void budget_low(uintptr_t caller) {
    if (out_of_time) {
        if (!caller) return; // the thread has ended
        report_out_of_time(caller);
        abandon_launch();
    }
    const bool settled = settle_writes();
    if (state.launch.trace && --traced_budget >= 0) {
        state.budget_left = 0;
        return;
    }
    if (settled && state.budget_left >= 0) return;
    report(ENDLESS_LOOP, caller, 0, "more than %lld memory accesses and waits, the budget of this launch",
           static_cast<long long>(state.launch.access_budget));
    abandon_launch();
}

} // namespace peakgate

using namespace peakgate;

// The thread's stack may be used again from its top on: this function's frame is below what a new fiber writes there.
void peakgate_exit() {
    const int ended = end_thread();
    leave_to(next_thread(), ended);
}

void peakgate_check_threads(unsigned allowed, const void* caller) {
    if (static_cast<unsigned>(state.thread_count) <= allowed) return;
    report(LAUNCH_REFUSED, reinterpret_cast<uintptr_t>(caller), 0, "%d threads per block; the kernel's __launch_bounds__ allow %u", state.thread_count, allowed);
    abandon_launch();
}

int peakgate_barrier_from(int kind, int predicate, int site, const void* caller) {
    check_barrier_zero(reinterpret_cast<uintptr_t>(caller));
    current_thread().predicate = predicate;
    current_thread().barrier_site = site;
    wait_as(AT_BARRIER, reinterpret_cast<uintptr_t>(caller));
    return barrier_result[kind];
}

void peakgate_syncthreads(int site) { peakgate_barrier_from(PEAKGATE_BARRIER_PLAIN, 0, site, __builtin_return_address(0)); }
int peakgate_barrier(int kind, int predicate, int site) {
    return peakgate_barrier_from(kind, predicate, site, __builtin_return_address(0));
}

void peakgate_grid_barrier(const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    if (!state.launch.cooperative) {
        report(DIVERGENT_BARRIER, called_at, 0, "the grid is waited for in a launch that is not cooperative");
        abandon_launch();
    }
    wait_as(AT_GRID_BARRIER, called_at);
}

char* peakgate_shared_base() { return reinterpret_cast<char*>(state.shared - PEAKGATE_RESERVED_SHARED); }

int peakgate_is_shared(const void* address) {
    const auto at = reinterpret_cast<uintptr_t>(address);
    return at - state.shared < state.shared_size || rank_reached(at) >= 0;
}

int peakgate_is_cooperative() { return state.launch.cooperative; }

unsigned peakgate_converge(int site, const void* caller) {
    current_thread().barrier_site = site;
    wait_as(CONVERGING, reinterpret_cast<uintptr_t>(caller));
    return current_thread().warp_mask;
}

long long peakgate_clock() { return ++clock_ticks; }

// Returns 0, or -1 if memory or a timer for the launch is not available. Defects are in peakgate_reports.
PEAKGATE_API int peakgate_launch(const Launch* launch) {
    state.launch = *launch;
    state.thread_count = static_cast<int>(launch->block[0] * launch->block[1] * launch->block[2]);
    state.report_count = 0;
    state.budget_left = traced_budget = launch->access_budget;
    if (launch->trace) state.budget_left = 0;
    state.progress = 1;
    stored.size = 0;
    abandoned = restarts = state.sending = false;
    peakgate_cluster_size_x = peakgate_cluster_size_y = peakgate_cluster_size_z = 1;
    preempt_random = launch->schedule;
    preempt_count = 0;
    left_count = 0;
    leaving = false;
    begin_launch_of_order();
    begin_heap();
    bool ready = map_launch() && begin_checks() && start_watchdog();
    if (ready) {
        set_order(launch->schedule);
        peakgate_grid_size_x = launch->grid[0];
        peakgate_grid_size_y = launch->grid[1];
        peakgate_grid_size_z = launch->grid[2];
        peakgate_block_size_x = launch->block[0];
        peakgate_block_size_y = launch->block[1];
        peakgate_block_size_z = launch->block[2];
        catch_faults();
        ready = run_grid();
        release_faults();
        settle_writes();
        end_checks();
    }
    stop_watchdog();
    unmap_launch(ready);
    return ready ? 0 : -1;
}
