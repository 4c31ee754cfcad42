// The happens-before relation of accesses: vector clocks with scopes, as in C++ race detectors. Only this file
// implements it; other files call `ordered` (shadow.h), which calls this file if the blocks differ.
//
//  operation                                        | effect on order
//  -------------------------------------------------+----------------------------------------------------------------------
//  plain load or store; __ldg, __ldcg, __stcg, ...  | none; two unordered ones of one word, one a store, are a race
//                                                   | (unless a compare-and-swap tests it: tested_reads.cpp)
//  __threadfence_block, fence.*.cta, membar.cta     | the thread's clock becomes its pending release in its block; what its
//                                                   | strong loads saw released by its own block is acquired
//  __threadfence, __threadfence_system,             | the same for the whole device
//  fence.*.gpu/.sys, membar.gl/.sys,                | (.cluster: for the cluster; a block without one is its own)
//  cuda::atomic_thread_fence (scope as given)       |
//  atomicAdd ... (relaxed, device), _system;        | strong load and store: the pending release joins the word's clock;
//  atom, red, cuda::atomic(_ref) relaxed            | the word's clock is remembered until the next fence acquires it
//  atomicAdd_block ..., .cta, thread_scope_block    | the same among threads of one block; with another block it is a race
//  volatile; ld/st.volatile, .relaxed               | strong load or store, relaxed, device. Yet a race: between lanes of one
//                                                   | warp in shared memory without a fence; two stores of unlike values;
//                                                   | a store without a fence and an atomic; a load of what its writer
//                                                   | published too weakly through another word that the reader has read
//  .acquire, memory_order_acquire                   | what the word's clock has is acquired at once
//  .release, memory_order_release                   | the thread's own clock joins the word's clock; what an atomic reads
//                                                   | is acquired by a fence, not by a barrier
//  a failing compare-and-swap                       | a strong load
//  a strong store (no read-modify-write) of another | restarts the word's clock: it no longer has the earlier releases
//  thread                                           |
//  __syncthreads variants, bar.sync, block.sync     | all clocks of the block are joined; strong loads before it are acquired,
//                                                   | fences before it hold for every thread after it (the guide's last
//                                                   | block and CUB's GridBarrier rely on these two)
//  bar.arrive, cuda::barrier, mbarrier              | arrival releases, wait acquires; a written .cta: in the block only
//                                                   | (but completed asynchronous operations in any scope)
//  bytes that arrive at an mbarrier                 | a release of what their sender knew, at cluster scope
//  mbarrier.arrive.relaxed, .try_wait.relaxed       | arrival: what was fenced; wait: acquired by the next fence or barrier
//  __syncwarp, tile.sync                            | clocks and fences of the lanes that met are joined
//  __shfl_sync, votes, match, reduce, __activemask  | none: the guide says that they imply no memory barrier
//  grid.sync                                        | all that came before happened before all that follows
//  fence.proxy.async, fence.mbarrier_init           | what its thread wrote to that memory before it, and what it knew of
//                                                   | others' writes, is there for asynchronous operations that come after it
//  barrier.cluster, cluster.sync                    | arrival releases (`.relaxed`: what was fenced), wait acquires, among
//                                                   | all blocks of the cluster; of one block: as __syncthreads, at the wait
//
// Copies by the copy engine and wgmma are performed by agents, which have stamps like threads. An agent's accesses are
// ordered only for threads that waited for it (bulk_copy.cpp, tensor_cores.cpp); barriers do not order them.
//
// A strong load is ordered after the strong store that it observed, for that word only (PTX's observation order).
//
// A clock is sparse: per block the epoch up to which everything is known (a barrier ends an epoch and orders all
// threads of the block), and single threads of the epoch in which they released. Within a block and an epoch, rows of
// stamps are used instead; most threads never need more.
#include "shadow.h"

#include <stdlib.h>
#include <string.h>

namespace peakgate {

// The accesses before `until` (epoch and stamp) that are known: those of a block's thread, or of all its threads.
struct Entry {
    uint64_t who, until;
};
constexpr uint64_t EVERYBODY = 0xffff, SEVERAL = ~uint64_t{0};

// Immutable; the entries about other blocks may be shared with other clocks.
struct Clock {
    int references;
    uint32_t count;
    Clock* others;
    Entry entries[1];
};

constexpr int PADDING = 16;  // otherwise the rows would compete for the same few cache sets
constexpr int SCOPES = 3;    // of a release: block, cluster or device
constexpr int AWAITED = 8;   // words that a thread has read since its last acquire
constexpr int FENCES = 8;    // number of a thread's latest proxy fences that are kept
constexpr int OBSERVED = 64; // latest strong stores that a block has observed

// The releases that a load of the word's value acquires, the latest first.
struct Link {
    int references;
    uint32_t length;
    uint64_t by; // block and thread, or SEVERAL
    Link* previous;
    Clock* clock;
};

struct Location {
    uintptr_t address; // 0: an empty entry of the table
    uint32_t begun;    // number of stores that restarted it
    uint32_t too_long; // number of links from which on they are joined
    uint64_t stored_by;
    Link* released[SCOPES];
};

struct Locations {
    Location* places;
    size_t capacity, count;
};

// Stores that a strong load has observed and no fence has acquired.
struct Awaited {
    uintptr_t address;
    uint32_t begun;
    int scope;
    bool compares; // by a compare-and-swap: a lock, whose data need the fence even if they are volatile
    bool releases; // by an operation with a written release and no acquire: a barrier does not replace the fence
    Link* released[SCOPES];
};

struct Awaiting {
    int count;
    Awaited seen[AWAITED];
};

struct Observed {
    const void* cell;
    uint32_t epoch, stamp;                   // of the store
    uint32_t observer_epoch, observer_stamp; // of the observer
    uint32_t address;                        // of the code that stored
    uint16_t thread, observer;
};

// A thread's clock in addition to that of its block at the last barrier.
struct OfThread {
    Clock* others; // of other blocks; null: the same as its block's
    Clock* fenced[SCOPES];
    Awaiting awaiting;
    Published* awaited; // what its relaxed waits for barrier objects have seen
    uint32_t row_epoch; // epoch of the last addition to its row
    bool listed;
};

// A thread's latest fences between its own accesses to shared memory and asynchronous ones.
struct ProxyFences {
    struct {
        uint32_t epoch, stamp;
        int covers; // `PeakgateProxy`
    } fences[FENCES];
    uint32_t count;
};

struct Order {
    uint32_t rows[MAX_THREADS][MAX_THREADS + AGENTS + PADDING];
    int used_rows; // rows from this one on are zero
    bool wide;     // whether columns of other warps and of agents may not be zero
    OfThread threads[MAX_THREADS];
    int listed[MAX_THREADS], listed_count; // threads with a clock of their own
    Clock* others;
    Clock* fenced[SCOPES];
    Awaiting awaiting;
    Locations locations; // in shared memory
    Observed observed[OBSERVED];
    unsigned observed_count;
    uint32_t agent_stamps[AGENTS];
    ProxyFences proxy_fences[MAX_THREADS];
};

namespace {

// The latest fence of a block for asynchronous reads of global memory.
struct GlobalFence {
    uint32_t epoch, stamp;
    int thread;
    bool of_several; // several threads of the block have such a fence in this epoch
};
GlobalFence* global_fences; // by the block's number
size_t global_fence_count;
Clock* known_at_global_fences; // what any thread knew of other blocks at such a fence

Locations global_locations;
Entry* scratch;
size_t scratch_count, scratch_room;
Entry* spare_run; // buffer for merging
size_t spare_room;

struct Run { // of epochs of one block
    uint32_t first, block;
};
Run* runs;
size_t run_count, run_room;

void* more(void* from, size_t count, size_t size, size_t& room) {
    if (count < room) return from;
    room = room ? 2 * room : 64;
    void* grown = realloc(from, room * size);
    if (!grown) abort();
    return grown;
}

int first_of_warp(int thread) { return thread - thread % WARP; }
uint64_t who(int thread) { return static_cast<uint64_t>(state.block->number) << 16 | static_cast<uint64_t>(thread); }
// Place of a scope among the releases of a word or thread. A block without a cluster is a cluster of its own.
int which_of(int scope) { return scope == PEAKGATE_CLUSTER && !state.cluster ? 0 : scope - PEAKGATE_BLOCK; }

// Place of the narrowest scope that the current thread and one of this block, given with or without a thread, share.
int shared_scope(uint64_t by) {
    const uint64_t block = by >> 16;
    if (block == state.block->number) return 0;
    return state.cluster && block / cluster_blocks() == state.block->number / cluster_blocks() ? 1 : 2;
}

uint64_t time_of(uint32_t epoch, uint32_t stamp) { return static_cast<uint64_t>(epoch) << 32 | stamp; }
Order& here() { return *state.block->order; }

// ---- clocks ----

Clock* keep(Clock* clock) {
    if (clock) ++clock->references;
    return clock;
}

void drop(Clock*& clock) {
    Clock* dropped = clock;
    clock = nullptr;
    while (dropped && --dropped->references == 0) {
        Clock* next = dropped->others;
        free(dropped);
        dropped = next;
    }
}

void drop(Link*& link) {
    Link* dropped = link;
    link = nullptr;
    while (dropped && --dropped->references == 0) {
        Link* next = dropped->previous;
        drop(dropped->clock);
        free(dropped);
        dropped = next;
    }
}

Clock* new_clock(size_t count, Clock* others) {
    auto* clock = static_cast<Clock*>(malloc(sizeof(Clock) + count * sizeof(Entry)));
    if (!clock) abort();
    clock->references = 1;
    clock->count = static_cast<uint32_t>(count);
    clock->others = keep(others);
    return clock;
}

uint64_t known_until(const Clock& clock, uint64_t whose) {
    size_t low = 0, high = clock.count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (clock.entries[middle].who < whose)
            low = middle + 1;
        else
            high = middle;
    }
    return low < clock.count && clock.entries[low].who == whose ? clock.entries[low].until : 0;
}

bool is_agent(uint64_t whose) { return (whose & EVERYBODY) >= MAX_THREADS && (whose & EVERYBODY) != EVERYBODY; }

// Agents only use stamps, since barriers do not order them.
uint64_t time_of(const Access& access) {
    return time_of(access.thread < MAX_THREADS ? access.epoch : 0, access.stamp);
}

// For a clock without a further one.
bool knows(const Clock* clock, uint64_t whose, uint64_t time) {
    if (clock && is_agent(whose)) return known_until(*clock, whose) > time;
    return clock && (known_until(*clock, whose | EVERYBODY) > time || known_until(*clock, whose) > time);
}

// The end of the sorted run of additions that begins at `at`.
size_t in_order_until(size_t at) {
    while (++at < scratch_count && scratch[at - 1].who <= scratch[at].who) {}
    return at;
}

// Sorts the additions by block and thread by merging sorted runs, usually two clocks.
void sort_added() {
    for (;;) {
        size_t merged = 0, at = 0;
        while (spare_room < scratch_count) spare_run = static_cast<Entry*>(more(spare_run, spare_room, sizeof(Entry), spare_room));
        while (at < scratch_count) {
            size_t first = at, middle = in_order_until(at), second = middle;
            if (first == 0 && middle == scratch_count) return;
            const size_t end = middle < scratch_count ? in_order_until(middle) : middle;
            for (; at < end; ++at)
                spare_run[at] = first < middle && (second == end || scratch[first].who <= scratch[second].who) ? scratch[first++]
                                                                                                            : scratch[second++];
            ++merged;
        }
        Entry* const before = scratch;
        const size_t room = scratch_room;
        scratch = spare_run;
        scratch_room = spare_room;
        spare_run = before;
        spare_room = room;
        if (merged == 1) return;
    }
}

void add(Entry entry) {
    scratch = static_cast<Entry*>(more(scratch, scratch_count, sizeof(Entry), scratch_room));
    scratch[scratch_count++] = entry;
}

void add_all(const Clock* clock) {
    for (; clock; clock = clock->others) {
        for (uint32_t i = 0; i < clock->count; ++i) add(clock->entries[i]);
    }
}

// Adds the entries of two clocks in order, the later of each thread.
void add_merged(const Clock& a, const Clock& b) {
    const size_t all = scratch_count + a.count + b.count;
    while (scratch_room <= all) scratch = static_cast<Entry*>(more(scratch, scratch_room, sizeof(Entry), scratch_room));
    uint32_t i = 0, j = 0;
    while (i < a.count && j < b.count) {
        const Entry &first = a.entries[i], &second = b.entries[j];
        i += first.who <= second.who;
        j += second.who <= first.who;
        scratch[scratch_count++] = first.who != second.who ? (first.who < second.who ? first : second) : first.until > second.until ? first : second;
    }
    for (; i < a.count; ++i) scratch[scratch_count++] = a.entries[i];
    for (; j < b.count; ++j) scratch[scratch_count++] = b.entries[j];
}

// The additions as one clock: the latest of each thread, without threads covered by their block's entry.
Clock* added() {
    sort_added();
    size_t kept = 0;
    for (size_t i = 0; i < scratch_count; ++i) {
        const Entry entry = scratch[i];
        if (kept && scratch[kept - 1].who == entry.who) {
            if (entry.until > scratch[kept - 1].until) scratch[kept - 1].until = entry.until;
        } else {
            scratch[kept++] = entry;
        }
        const bool last = i + 1 == scratch_count || scratch[i + 1].who != entry.who;
        if ((entry.who & EVERYBODY) != EVERYBODY || !last) continue;
        const Entry whole = scratch[--kept];
        size_t first = kept;
        while (first && scratch[first - 1].who >> 16 == whole.who >> 16) --first;
        size_t left = first;
        for (size_t j = first; j < kept; ++j) {
            if (scratch[j].until > whole.until || is_agent(scratch[j].who)) scratch[left++] = scratch[j];
        }
        scratch[left++] = whole;
        kept = left;
    }
    Clock* clock = new_clock(kept, nullptr);
    if (kept) memcpy(clock->entries, scratch, kept * sizeof(Entry));
    scratch_count = 0;
    return clock;
}

// Whether a clock includes another one; neither has a further one.
bool covers(const Clock& clock, const Clock& other) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < other.count; ++i) {
        const Entry& entry = other.entries[i];
        while (at < clock.count && clock.entries[at].who < entry.who) ++at;
        const bool same = at < clock.count && clock.entries[at].who == entry.who && clock.entries[at].until >= entry.until;
        if (!same && !knows(&clock, entry.who, entry.until - 1)) return false;
    }
    return true;
}

Clock* joined(Clock* a, Clock* b) {
    if (!a || !b || a == b) return keep(a ? a : b);
    if (!a->others && !b->others) { // usually one includes the other
        if (covers(*a, *b)) return keep(a);
        if (covers(*b, *a)) return keep(b);
        add_merged(*a, *b);
    } else {
        add_all(a);
        add_all(b);
    }
    return added();
}

void join(Clock*& into, Clock* other) {
    if (!other || into == other) return;
    Clock* both = joined(into, other);
    drop(into);
    into = both;
}

// ---- what a thread knows ----

OfThread& listed(int thread) {
    Order& order = here();
    OfThread& of = order.threads[thread];
    if (!of.listed) {
        of.listed = true;
        order.listed[order.listed_count++] = thread;
    }
    return of;
}

void acquire_awaited(Awaiting& awaiting, int scope, Clock*& others, int thread);

// Stores observed by strong loads before the block's last barriers count for all its threads. Evaluated only when
// needed: of blocks that count themselves, only the last one needs it.
void settle_block() {
    Order& order = here();
    if (order.awaiting.count) acquire_awaited(order.awaiting, PEAKGATE_DEVICE, order.others, -1);
}

Clock*& others_of(int thread) {
    OfThread& of = here().threads[thread];
    return of.others ? of.others : here().others;
}

// The rows of the running block, before an addition; the next block that uses them clears them.
Order& rows_in_use() {
    Order& order = here();
    order.used_rows = state.thread_count;
    order.wide |= state.crossed || state.agents || state.cluster;
    return order;
}

void know_thread(int self, int other, uint32_t stamp) {
    state.crossed |= first_of_warp(self) != first_of_warp(other);
    Order& order = rows_in_use();
    order.threads[self].row_epoch = state.epoch;
    state.threads[self].met_stamp = ++state.threads[self].stamp;
    state.threads[self].met_epoch = state.epoch;
    if (stamp > order.rows[self][other]) order.rows[self][other] = stamp;
}

void know_agent(int self, int agent, uint32_t stamp) {
    uint32_t& known = rows_in_use().rows[self][agent];
    if (known < stamp) known = stamp;
}

// Adds the new entries of a clock; those about the own block go to the thread's row.
void learn(const Clock* clock, const Clock* known, int thread, bool own_block_only) {
    for (; clock; clock = clock->others) {
        for (uint32_t i = 0; i < clock->count; ++i) {
            const Entry& entry = clock->entries[i];
            const int other = static_cast<int>(entry.who & EVERYBODY);
            if (entry.who >> 16 == state.block->number) {
                if (thread >= 0 && is_agent(entry.who))
                    know_agent(thread, other, static_cast<uint32_t>(entry.until));
                else if (thread >= 0 && other != static_cast<int>(EVERYBODY) && other != thread && entry.until >> 32 == state.epoch)
                    know_thread(thread, other, static_cast<uint32_t>(entry.until));
            } else if (!own_block_only && !knows(known, entry.who, entry.until - 1)) {
                add(entry);
            }
        }
    }
}

void acquire(const Awaited& seen, int scope, const Clock* known, int thread) {
    for (int which = 0; which < SCOPES; ++which) {
        const Clock* learnt = nullptr;
        for (const Link* link = seen.released[which]; link; link = link->previous) {
            const int needed = shared_scope(link->by);
            if (link->clock == learnt) continue;
            if (needed <= which && needed <= which_of(scope))
                learn(learnt = link->clock, known, thread, false);
            else if (link->by == SEVERAL)
                learn(link->clock, known, thread, true);
        }
    }
}

void add_to(Clock*& others, const Clock* before) {
    if (!scratch_count) return;
    add_all(before);
    Clock* more_known = added();
    drop(others);
    others = more_known;
}

void forget(Awaited& seen) {
    for (Link*& link : seen.released) drop(link);
}

void acquire_awaited(Awaiting& awaiting, int scope, Clock*& others, int thread) {
    const Clock* before = thread < 0 ? others : others_of(thread);
    int kept = 0;
    for (int i = 0; i < awaiting.count; ++i) {
        Awaited& seen = awaiting.seen[i];
        const bool by_barrier = thread < 0;
        if (!by_barrier || !seen.releases) acquire(seen, scope < seen.scope ? scope : seen.scope, before, thread);
        if (scope < seen.scope || (by_barrier && seen.releases))
            awaiting.seen[kept++] = seen; // a wider fence may follow
        else
            forget(seen);
    }
    awaiting.count = kept;
    add_to(others, before);
}

Link* keep(Link* link) {
    if (link) ++link->references;
    return link;
}

void await(Awaiting& awaiting, const Awaited& seen) {
    for (int i = 0; i < awaiting.count; ++i) {
        Awaited& known = awaiting.seen[i];
        if (known.address != seen.address || known.begun != seen.begun || known.scope != seen.scope) continue;
        known.compares |= seen.compares;
        known.releases &= seen.releases;
        for (int which = 0; which < SCOPES; ++which) {
            if (known.released[which] == seen.released[which]) continue;
            drop(known.released[which]);
            known.released[which] = keep(seen.released[which]);
        }
        return;
    }
    if (awaiting.count == AWAITED) { // the oldest is dropped
        forget(awaiting.seen[0]);
        memmove(&awaiting.seen[0], &awaiting.seen[1], (AWAITED - 1) * sizeof(Awaited));
        --awaiting.count;
    }
    Awaited& added_one = awaiting.seen[awaiting.count++] = seen;
    for (Link* link : added_one.released) keep(link);
}

// End of the agents' columns of a row.
int end_of_agents() { return state.agents ? MAX_THREADS + AGENTS : MAX_THREADS; }

void join_agents(uint32_t* into, const uint32_t* row) {
    for (int i = MAX_THREADS; i < end_of_agents(); ++i) into[i] = row[i] > into[i] ? row[i] : into[i];
}

// All that a thread knows now; its later accesses have a later stamp.
Clock* clock_of(int thread) {
    settle_block();
    Order& order = rows_in_use();
    uint32_t* row = order.rows[thread];
    row[thread] = ++state.threads[thread].stamp;
    size_t count = 2;
    const bool alone = order.threads[thread].row_epoch != state.epoch;
    for (int i = 0; i < state.thread_count && !alone; ++i) count += i != thread && row[i];
    for (int i = MAX_THREADS; i < end_of_agents(); ++i) count += row[i] != 0;
    Clock* clock = new_clock(count, others_of(thread));
    size_t at = 0;
    for (int i = alone ? thread : 0; i < (alone ? thread + 1 : state.thread_count); ++i) {
        if (row[i]) clock->entries[at++] = {who(i), time_of(state.epoch, row[i])};
    }
    for (int i = MAX_THREADS; i < end_of_agents(); ++i) {
        if (row[i]) clock->entries[at++] = {who(i), time_of(0, row[i])};
    }
    clock->entries[at] = {who(0) | EVERYBODY, time_of(state.epoch, 0)};
    return clock;
}

// ---- words ----

bool is_shared_word(uintptr_t address) { return address - state.shared < state.shared_size; }

Location* place_of(Locations& table, uintptr_t address) {
    size_t at = address * 0x9e3779b97f4a7c15ull >> 20 & (table.capacity - 1);
    while (table.places[at].address && table.places[at].address != address) at = (at + 1) & (table.capacity - 1);
    return &table.places[at];
}

Location* find(Locations& table, uintptr_t address) {
    if (!table.count) return nullptr;
    Location* found = place_of(table, address);
    return found->address ? found : nullptr;
}

Location& find_or_make(Locations& table, uintptr_t address) {
    if (2 * (table.count + 1) > table.capacity) {
        Locations grown = {nullptr, table.capacity ? 2 * table.capacity : 64, table.count};
        grown.places = static_cast<Location*>(calloc(grown.capacity, sizeof(Location)));
        if (!grown.places) abort();
        for (size_t i = 0; i < table.capacity; ++i) {
            if (table.places[i].address) *place_of(grown, table.places[i].address) = table.places[i];
        }
        free(table.places);
        table = grown;
    }
    Location* found = place_of(table, address);
    if (!found->address) {
        ++table.count;
        found->address = address;
        found->too_long = 8;
        found->stored_by = SEVERAL;
    }
    return *found;
}

void clear(Locations& table) {
    if (!table.count) return;
    for (size_t i = 0; i < table.capacity; ++i) {
        for (Link*& link : table.places[i].released) drop(link);
    }
    memset(table.places, 0, table.capacity * sizeof(Location));
    table.count = 0;
}

// Whether a clock, made by block `number`, includes another one; may be false if that is not obvious.
bool includes(const Clock* clock, uint64_t number, const Clock* other) {
    for (; other; other = other->others) {
        if (other == clock || other == clock->others) return true;
        uint32_t at = 0;
        for (uint32_t i = 0; i < other->count; ++i) {
            const Entry& entry = other->entries[i];
            if (entry.who >> 16 == number || is_agent(entry.who)) {
                if (!knows(clock, entry.who, entry.until - 1)) return false;
                continue;
            }
            const Clock* rest = clock->others ? clock->others : clock;
            while (at < rest->count && rest->entries[at].who < entry.who) ++at;
            const bool known = at < rest->count && rest->entries[at].who == entry.who && rest->entries[at].until >= entry.until;
            if (!known && !knows(rest, entry.who, entry.until - 1)) return false;
        }
    }
    return true;
}

void push(Link*& released, Link* previous, Clock* clock, uint64_t by) {
    auto* link = static_cast<Link*>(malloc(sizeof(Link)));
    if (!link) abort();
    *link = {1, previous ? previous->length + 1 : 1, by, keep(previous), keep(clock)};
    drop(released);
    released = link;
}

// Releases that the new one includes are dropped, such as the earlier releases of a lock: otherwise each thread that
// takes the lock would process the clocks of all earlier holders.
void append(Link*& released, Clock* clock, uint64_t by, bool of_device) {
    if (!clock || (released && released->clock == clock)) return;
    state.released = true;
    Link* previous = released;
    bool of_others = false; // some are another block's, whose threads may only need those of their own block
    while (previous) {
        const bool own = previous->by >> 16 == by >> 16;
        if (previous->by != by && ((!own && !of_device) || !includes(clock, by >> 16, previous->clock))) break;
        of_others |= !own;
        previous = previous->previous;
    }
    if (of_others) {
        push(released, previous, clock, SEVERAL);
        previous = released;
    }
    push(released, previous, clock, by);
}

// Joins links: those of one block's releases, or all of the whole device.
void shorten(Location& at, int which) {
    Link*& released = at.released[which];
    if (!released || released->length < at.too_long) return;
    uint64_t by = released->by | EVERYBODY;
    for (const Link* link = released; link; link = link->previous) {
        if ((link->by | EVERYBODY) != by) by = SEVERAL;
    }
    if (by == SEVERAL && which != SCOPES - 1) return;
    for (const Link* link = released; link; link = link->previous) add_all(link->clock);
    Clock* all = added();
    at.too_long = 8 + all->count / 2;
    drop(released);
    push(released, nullptr, all, by);
    drop(all);
}

void forget_awaited(OfThread& of) {
    if (!of.awaited) return;
    drop(of.awaited->others);
    drop(of.awaited->across);
    free(of.awaited);
    of.awaited = nullptr;
}

void forget_thread(OfThread& of) {
    drop(of.others);
    forget_awaited(of);
    for (Clock*& fenced : of.fenced) drop(fenced);
    for (int i = 0; i < of.awaiting.count; ++i) forget(of.awaiting.seen[i]);
    of.awaiting.count = 0;
    of.listed = false;
}

// Passes a thread's clock on to others. If `awaiting` is null, strong loads count for their own thread only.
void hand_over(OfThread& of, Clock*& others, Clock** fenced, Awaiting* awaiting) {
    join(others, of.others);
    for (int scope = 0; scope < SCOPES; ++scope) join(fenced[scope], of.fenced[scope]);
    if (!awaiting) return;
    for (int i = 0; i < of.awaiting.count; ++i) await(*awaiting, of.awaiting.seen[i]);
}

} // namespace

// ---- the life of a block ----

Order* new_order() { return static_cast<Order*>(calloc(1, sizeof(Order))); }

void use_clock_of(int thread) { state.known = here().rows[thread]; }

void end_block_of_order() {
    Order& order = here();
    for (int i = 0; i < order.listed_count; ++i) forget_thread(order.threads[order.listed[i]]);
    order.listed_count = 0;
    drop(order.others);
    for (Clock*& fenced : order.fenced) drop(fenced);
    for (int i = 0; i < order.awaiting.count; ++i) forget(order.awaiting.seen[i]);
    order.awaiting.count = 0;
    clear(order.locations);
    order.observed_count = 0;
}

void begin_block_of_order() {
    end_block_of_order(); // after an abandoned launch
    Order& order = here();
    for (int i = 0; i < state.thread_count; ++i) state.threads[i].stamp = 0;
    if (state.agents || state.cluster) {
        memset(order.agent_stamps, 0, sizeof order.agent_stamps);
        for (int i = 0; i < state.thread_count; ++i) order.proxy_fences[i].count = 0;
    }
    for (int i = 0; i < order.used_rows; ++i) {
        if (order.wide)
            memset(order.rows[i], 0, sizeof order.rows[i]);
        else // only its own warp's were used
            memset(&order.rows[i][first_of_warp(i)], 0, WARP * sizeof(uint32_t));
    }
    state.crossed = false;
    order.used_rows = 0;
    order.wide = false;
}

void begin_launch_of_order() {
    clear(global_locations);
    state.released = false;
    state.agents = false;
    run_count = 0;
    scratch_count = 0;
    if (global_fence_count) memset(global_fences, 0, global_fence_count * sizeof(GlobalFence));
    drop(known_at_global_fences);
}

void begin_epoch() {
    const uint32_t before = state.epoch;
    state.epoch = ++state.last_epoch;
    if (state.epoch != before + 1) state.block_epoch = state.epoch;
    if (run_count && runs[run_count - 1].block == state.block->number) return;
    runs = static_cast<Run*>(more(runs, run_count, sizeof(Run), run_room));
    runs[run_count++] = {state.epoch, state.block->number};
}

uint32_t block_of(uint32_t epoch) {
    size_t low = 0, high = run_count;
    while (low + 1 < high) {
        const size_t middle = (low + high) / 2;
        (runs[middle].first <= epoch ? low : high) = middle;
    }
    return run_count ? runs[low].block : 0;
}

void block_met() {
    Order& order = here();
    for (int i = 0; i < order.listed_count; ++i) {
        OfThread& of = order.threads[order.listed[i]];
        if (of.awaited) acquire_from(*of.awaited, order.listed[i]);
        hand_over(of, order.others, order.fenced, &order.awaiting);
        forget_thread(of);
    }
    order.listed_count = 0;
    if (state.agents) {
        rows_in_use();
        for (int i = 1; i < state.thread_count; ++i) join_agents(order.rows[0], order.rows[i]);
        for (int i = 1; i < state.thread_count; ++i) join_agents(order.rows[i], order.rows[0]);
    }
    begin_epoch();
}

bool ordered_in_cluster(const Access& earlier) {
    if (earlier.epoch < state.shared_since) return true; // of an earlier use of the memory
    if (block_of(earlier.epoch) != state.block->number) return ordered_across_blocks(earlier);
    return earlier.thread < MAX_THREADS || met_since(earlier);
}

bool ordered_across_blocks(const Access& earlier) {
    const uint32_t block = block_of(earlier.epoch);
    if (block == state.block->number) return true; // of an earlier epoch: a barrier was between
    const uint64_t whose = static_cast<uint64_t>(block) << 16 | earlier.thread, time = time_of(earlier);
    if (knows(others_of(state.current), whose, time)) return true;
    if (!here().awaiting.count) return false;
    settle_block();
    OfThread& of = here().threads[state.current];
    if (of.others) join(of.others, here().others);
    return knows(others_of(state.current), whose, time);
}

// ---- inside a block ----

void threads_met(const int* threads, int count) {
    const int warp = first_of_warp(threads[0]);
    bool within_warp = true;
    for (int i = 0; i < count; ++i) within_warp &= first_of_warp(threads[i]) == warp;
    state.crossed |= !within_warp;
    Order& order = rows_in_use();
    const int begin = state.crossed ? 0 : warp;
    const int columns = state.crossed ? state.thread_count : WARP;
    uint32_t joined_row[MAX_THREADS];
    memcpy(joined_row, &order.rows[threads[0]][begin], static_cast<size_t>(columns) * sizeof *joined_row);
    // Each thread that met has the latest stamp of itself; if a whole warp has met, nothing else is needed.
    if (state.crossed || count < WARP) {
        for (int i = 1; i < count; ++i) {
            const uint32_t* row = &order.rows[threads[i]][begin];
            for (int column = 0; column < columns; ++column)
                joined_row[column] = row[column] > joined_row[column] ? row[column] : joined_row[column];
        }
    }
    for (int i = 0; i < count; ++i) joined_row[threads[i] - begin] = ++state.threads[threads[i]].stamp;
    for (int i = 1; i < count && state.agents; ++i) join_agents(order.rows[threads[0]], order.rows[threads[i]]);
    for (int i = 1; i < count && state.agents; ++i) join_agents(order.rows[threads[i]], order.rows[threads[0]]);
    for (int i = 0; i < count; ++i) {
        memcpy(&order.rows[threads[i]][begin], joined_row, static_cast<size_t>(columns) * sizeof *joined_row);
        order.threads[threads[i]].row_epoch = state.epoch;
        state.threads[threads[i]].met_stamp = state.threads[threads[i]].stamp;
        state.threads[threads[i]].met_epoch = state.epoch;
    }
    if (!order.listed_count) return;
    Clock *others = nullptr, *fenced[SCOPES] = {};
    for (int i = 0; i < count; ++i) hand_over(order.threads[threads[i]], others, fenced, nullptr);
    for (int i = 0; i < count && (others || fenced[0]); ++i) {
        OfThread& of = listed(threads[i]);
        join(of.others, others);
        for (int scope = 0; scope < SCOPES; ++scope) join(of.fenced[scope], fenced[scope]);
    }
    drop(others);
    for (Clock*& clock : fenced) drop(clock);
}

void publish_to(Published& published) {
    const int self = state.current;
    state.crossed = true;
    Order& order = rows_in_use();
    settle_block();
    uint32_t* row = order.rows[self];
    row[self] = ++state.threads[self].stamp;
    for (int i = 0; i < state.thread_count; ++i)
        published.known[i] = row[i] > published.known[i] ? row[i] : published.known[i];
    join_agents(published.known, row);
    join(published.others, others_of(self));
}

static void acquire(Clock* published, int thread, bool of_own_block) {
    if (!published || published == others_of(thread)) return;
    settle_block();
    if (of_own_block) {
        for (uint32_t i = 0; i < published->count; ++i) {
            const Entry& entry = published->entries[i];
            const int other = static_cast<int>(entry.who & EVERYBODY);
            if (entry.who >> 16 != state.block->number || other == static_cast<int>(EVERYBODY)) continue;
            if (is_agent(entry.who)) know_agent(thread, other, static_cast<uint32_t>(entry.until));
            else if (entry.until >> 32 == state.epoch && other != thread) know_thread(thread, other, static_cast<uint32_t>(entry.until));
        }
    }
    // Threads that wait for the same usually know the same.
    static Clock *last, *with, *result;
    if (last != others_of(thread) || with != published) {
        Clock* both = joined(others_of(thread), published);
        Clock *first = keep(others_of(thread)), *second = keep(published);
        drop(last);
        drop(with);
        drop(result);
        last = first, with = second, result = both;
    }
    OfThread& of = listed(thread);
    Clock* before = of.others;
    of.others = keep(result);
    drop(before);
}

// What is known to be complete of asynchronous operations, which a wait observes in any scope (PTX ISA 9.7.16.6.2.1.1).
static void acquire_agents(const Clock* published, int thread) {
    for (uint32_t i = 0; published && i < published->count; ++i) {
        const Entry& entry = published->entries[i];
        if (!is_agent(entry.who)) continue;
        if (entry.who >> 16 == state.block->number)
            know_agent(thread, static_cast<int>(entry.who & EVERYBODY), static_cast<uint32_t>(entry.until));
        else
            add(entry);
    }
    if (!scratch_count) return;
    Clock* agents = added();
    acquire(agents, thread, false);
    drop(agents);
}

void acquire_from(const Published& published, int thread, bool narrow) {
    Order& order = rows_in_use();
    order.wide = true;
    order.threads[thread].row_epoch = state.epoch;
    state.threads[thread].met_stamp = ++state.threads[thread].stamp;
    state.threads[thread].met_epoch = state.epoch;
    uint32_t* own = order.rows[thread];
    for (int i = 0; i < state.thread_count; ++i) own[i] = published.known[i] > own[i] ? published.known[i] : own[i];
    join_agents(own, published.known);
    acquire(published.others, thread, state.cluster || published.of_fences); // others may have passed on knowledge of the own block
    ends_after(published.arrived);
    if (narrow) ends_after(published.across);
    if (narrow)
        acquire_agents(published.across, thread);
    else
        acquire(published.across, thread, true);
}

void publish_across(Clock*& published) {
    settle_block();
    Clock* own = clock_of(state.current);
    add_all(own); // of several parts
    Clock* flat = added();
    join(published, flat);
    drop(flat);
    drop(own);
}

void publish_fenced(Clock*& published, int scope) {
    const Order& order = here();
    Clock* const own = order.threads[state.current].fenced[which_of(scope)];
    Clock* fenced = own ? own : order.fenced[which_of(scope)];
    if (!fenced) return;
    add_all(fenced);
    Clock* flat = added();
    join(published, flat);
    drop(flat);
}

void await_published(const Published& published) {
    ends_after(published.arrived);
    OfThread& of = listed(state.current);
    if (!of.awaited) of.awaited = static_cast<Published*>(calloc(1, sizeof(Published)));
    if (!of.awaited) abort();
    for (int i = 0; i < MAX_THREADS + AGENTS; ++i)
        of.awaited->known[i] = published.known[i] > of.awaited->known[i] ? published.known[i] : of.awaited->known[i];
    join(of.awaited->others, published.others);
    join(of.awaited->across, published.across);
    of.awaited->of_fences |= published.of_fences;
}

uint32_t known_of_agent(uint32_t block, int thread, int agent, bool or_awaits) {
    const uint64_t whose = static_cast<uint64_t>(block) << 16 | static_cast<uint64_t>(agent);
    const bool own = block == state.block->number;
    uint32_t known = own ? here().rows[thread][agent] : 0;
    const auto learn_from = [&](uint64_t until) { known = static_cast<uint32_t>(until) > known ? static_cast<uint32_t>(until) : known; };
    if (!own && others_of(thread)) learn_from(known_until(*others_of(thread), whose));
    const Published* const awaited = or_awaits ? here().threads[thread].awaited : nullptr;
    if (!awaited) return known;
    if (own) learn_from(awaited->known[agent]);
    if (awaited->others) learn_from(known_until(*awaited->others, whose));
    if (awaited->across) learn_from(known_until(*awaited->across, whose));
    return known;
}

uint32_t known_of_agent(uint32_t block, const Clock& published, int agent) {
    return static_cast<uint32_t>(known_until(published, static_cast<uint64_t>(block) << 16 | static_cast<uint64_t>(agent)));
}

void publish_agent(Clock*& published, uint32_t block, int agent, uint32_t known) {
    if (!known) return;
    add({static_cast<uint64_t>(block) << 16 | static_cast<uint64_t>(agent), time_of(0, known)});
    Clock* one = added();
    join(published, one);
    drop(one);
}

void publish_block(uint32_t number, const Published& among_them, uint32_t epoch, Published& published) {
    const uint64_t block = static_cast<uint64_t>(number) << 16;
    for (int i = 0; i < state.thread_count; ++i) {
        if (among_them.known[i]) add({block | static_cast<uint64_t>(i), time_of(epoch, among_them.known[i])});
    }
    for (int i = MAX_THREADS; i < end_of_agents(); ++i) {
        if (among_them.known[i]) add({block | static_cast<uint64_t>(i), time_of(0, among_them.known[i])});
    }
    add({block | EVERYBODY, time_of(epoch, 0)});
    add_all(among_them.others);
    Clock* flat = added();
    join(published.others, flat);
    drop(flat);
}

bool has_published(const Published& published, uint32_t number, int thread, uint32_t epoch, uint32_t stamp) {
    return knows(published.others, static_cast<uint64_t>(number) << 16 | static_cast<uint64_t>(thread), time_of(epoch, stamp));
}

bool knows_of(uint32_t number) {
    settle_block();
    const Clock* others = others_of(state.current);
    return others && known_until(*others, static_cast<uint64_t>(number) << 16 | EVERYBODY) > 0;
}

void forget_published(Published& published) {
    memset(published.known, 0, sizeof published.known);
    drop(published.others);
    drop(published.across);
    drop(published.arrived);
    published.of_fences = false;
}

void add_published(Clock*& to, Clock* published) { join(to, published); }

// ---- agents ----

void use_agents() {
    if (state.agents) return;
    memset(here().agent_stamps, 0, sizeof here().agent_stamps);
    state.agents = true;
}

uint32_t new_stamp_of(int agent) {
    use_agents();
    state.crossed = true;
    rows_in_use();
    return ++here().agent_stamps[agent - MAX_THREADS];
}

void learn(int thread, int agent, uint32_t stamp) {
    Order& order = rows_in_use();
    order.threads[thread].row_epoch = state.epoch;
    uint32_t& known = order.rows[thread][agent];
    if (known <= stamp) known = stamp + 1;
}

void learn_of_block(uint32_t block, int thread, int agent, uint32_t stamp) {
    if (block == state.block->number) return learn(thread, agent, stamp);
    settle_block();
    Clock* more_known = keep(others_of(thread));
    publish_agent(more_known, block, agent, stamp + 1);
    OfThread& of = listed(thread);
    drop(of.others);
    of.others = more_known;
}

bool fenced_for_agents(const Block& block, const Access& write, PeakgateProxy needed) {
    const Order& order = *block.order;
    const int self = state.current;
    const ProxyFences& by_writer = order.proxy_fences[write.thread];
    const uint32_t oldest = by_writer.count > FENCES ? by_writer.count - FENCES : 0;
    for (uint32_t i = oldest; i < by_writer.count; ++i) {
        const auto& fence = by_writer.fences[i % FENCES];
        const bool later = fence.epoch == write.epoch ? fence.stamp >= write.stamp : fence.epoch > write.epoch;
        if (!later || !(fence.covers & needed)) continue;
        if (i == oldest && i > 0) return true; // one before it may have been the first after the write
        if (&block != state.block) return true; // the access itself has been checked
        if (write.thread == self || fence.epoch != state.epoch || state.known[write.thread] > fence.stamp) return true;
    }
    if (&block != state.block) return false;
    // One of its own fences suffices, if the write was known by then.
    const ProxyFences& own = order.proxy_fences[self];
    if (!own.count) return false;
    const auto& last = own.fences[(own.count - 1) % FENCES];
    if (!(last.covers & needed)) return false;
    if (last.epoch != write.epoch) return last.epoch > write.epoch;
    // Unless the thread has met the writer before its fence, it knows of the write by a later barrier only.
    const Thread& thread = state.threads[self];
    return last.stamp >= thread.met_stamp && (state.epoch == write.epoch || thread.met_epoch == write.epoch);
}

bool fenced_for_agents_anywhere(const Access& write) {
    const uint32_t block = block_of(write.epoch);
    if (block < global_fence_count) {
        const GlobalFence& last = global_fences[block];
        if (last.epoch > write.epoch) return true;
        if (last.epoch == write.epoch && (last.of_several || last.thread != write.thread || last.stamp >= write.stamp)) return true;
    }
    return knows(known_at_global_fences, static_cast<uint64_t>(block) << 16 | write.thread, time_of(write));
}

// ---- strong accesses ----

void strong_access(uintptr_t address, bool loads, bool stores, bool compares, int order, int scope) {
    const Place place = place_in_cluster(address);
    const uintptr_t word = place.address;
    Locations& table = is_shared_word(word) ? place.block->order->locations : global_locations;
    const int self = state.current;
    Location* at = find(table, word);
    if (loads && at && (at->released[0] || at->released[1] || at->released[2])) {
        for (int which = 0; which < SCOPES; ++which) shorten(*at, which);
        const bool releases = (order & PEAKGATE_RELEASE) && !(order & PEAKGATE_ACQUIRE);
        Awaited seen = {address, at->begun, scope, compares, releases, {at->released[0], at->released[1], at->released[2]}};
        if (order & PEAKGATE_ACQUIRE) {
            settle_block();
            const Clock* before = others_of(self);
            acquire(seen, scope, before, self);
            if (scratch_count) add_to(listed(self).others, before);
        } else {
            await(listed(self).awaiting, seen);
        }
    }
    if (!stores) return;
    if (!loads && at && at->stored_by != who(self)) {
        for (Link*& link : at->released) drop(link);
        ++at->begun;
    }
    Order& all = here();
    if (!loads) ++current_thread().stamp; // its later accesses are distinguished by the stamp, see meant_to_follow
    // The block-wide fence is part of the wider one: without it there is none.
    if (!at && !(order & PEAKGATE_RELEASE) && !all.threads[self].fenced[0] && !all.fenced[0]) return;
    Clock* clocks[SCOPES];
    for (int which = 0; which < SCOPES; ++which) {
        Clock* own = all.threads[self].fenced[which];
        clocks[which] = keep(own ? own : all.fenced[which]);
    }
    if (order & PEAKGATE_RELEASE) {
        const int which = which_of(scope);
        for (int narrower = 0; narrower <= which; ++narrower) drop(clocks[narrower]);
        clocks[which] = clock_of(self);
        for (int narrower = 0; narrower < which; ++narrower) clocks[narrower] = keep(clocks[which]);
    }
    if (at || clocks[0]) {
        at = &find_or_make(table, word);
        const int widest = which_of(scope);
        for (int which = widest; which >= 0; --which) {
            if (which == widest || clocks[which] != clocks[which + 1])
                append(at->released[which], clocks[which], who(self), which == SCOPES - 1);
        }
        at->stored_by = loads && at->stored_by != who(self) ? SEVERAL : who(self);
    }
    for (Clock*& clock : clocks) drop(clock);
}

bool awaited_orders(const Access& store, bool by_locks) {
    const uint32_t block = block_of(store.epoch);
    const uint64_t whose = static_cast<uint64_t>(block) << 16 | store.thread, time = time_of(store);
    const Awaiting &own = here().threads[state.current].awaiting, &of_block = here().awaiting;
    for (int i = 0; i < own.count + of_block.count; ++i) {
        const Awaited& seen = i < own.count ? own.seen[i] : of_block.seen[i - own.count];
        for (int which = 0; which < SCOPES && (by_locks || !seen.compares); ++which) {
            for (const Link* link = seen.released[which]; link; link = link->previous) {
                const int needed = shared_scope(link->by == SEVERAL ? whose : link->by);
                if (needed > which || needed > which_of(seen.scope)) continue;
                for (const Clock* clock = link->clock; clock; clock = clock->others) {
                    if (knows(clock, whose, time)) return true;
                }
            }
        }
    }
    return false;
}

bool has_fenced() { return here().threads[state.current].fenced[0] || here().fenced[0]; }

void observe(const void* cell, const Access& store) {
    Order& order = here();
    order.observed[order.observed_count++ % OBSERVED] = {cell,
                                                         store.epoch,
                                                         store.stamp,
                                                         state.epoch,
                                                         current_thread().stamp,
                                                         store.address,
                                                         store.thread,
                                                         static_cast<uint16_t>(state.current)};
}

bool has_observed(const void* cell, const Access& store) {
    const Order& order = here();
    for (unsigned i = 0; i < OBSERVED && i < order.observed_count; ++i) {
        const Observed& seen = order.observed[i];
        if (seen.cell != cell || seen.epoch != store.epoch || seen.stamp != store.stamp || seen.thread != store.thread) continue;
        if (seen.observer_epoch != state.epoch || seen.observer == state.current ||
            state.known[seen.observer] > seen.observer_stamp)
            return true;
    }
    return false;
}

MissingFence missing_fence(const Access& earlier, uint32_t& published_at) {
    const Order& order = here();
    const uint32_t block = block_of(earlier.epoch);
    published_at = 0;
    for (unsigned i = 0; i < OBSERVED && i < order.observed_count; ++i) {
        const Observed& seen = order.observed[i];
        const bool later = seen.epoch == earlier.epoch ? seen.thread == earlier.thread && seen.stamp >= earlier.stamp
                                                       : seen.epoch > earlier.epoch && block_of(seen.epoch) == block;
        const bool known = seen.observer_epoch != state.epoch || seen.observer == state.current ||
                           state.known[seen.observer] > seen.observer_stamp;
        if (later && known) published_at = seen.address;
    }
    if (awaited_orders(earlier, true)) return FENCE_OF_READER;
    return published_at ? FENCE_OF_WRITER : NO_FENCE;
}

bool meant_to_follow(const void* cell, const Access& store) {
    const Order& order = here();
    const uint32_t block = block_of(store.epoch);
    for (unsigned i = 0; i < OBSERVED && i < order.observed_count; ++i) {
        const Observed& seen = order.observed[i];
        const bool later = seen.epoch == store.epoch ? seen.thread == store.thread && seen.stamp > store.stamp
                                                     : seen.epoch > store.epoch && block_of(seen.epoch) == block;
        if (seen.cell == cell || !later) continue;
        if (seen.observer_epoch != state.epoch || seen.observer == state.current ||
            state.known[seen.observer] > seen.observer_stamp)
            return true;
    }
    return false;
}

} // namespace peakgate

using namespace peakgate;

void peakgate_fence(int order, int scope) {
    if (!state.checking || scope == PEAKGATE_THREAD) return;
    const int self = state.current;
    OfThread& of = here().threads[self];
    if ((order & PEAKGATE_ACQUIRE) && of.awaiting.count) {
        settle_block();
        acquire_awaited(of.awaiting, scope, of.others, self);
    }
    if ((order & PEAKGATE_ACQUIRE) && here().awaiting.count) { // of loads before a barrier, by any thread
        settle_block();
        const Clock* const before = others_of(self);
        const Awaiting& left = here().awaiting;
        for (int i = 0; i < left.count; ++i) acquire(left.seen[i], scope < left.seen[i].scope ? scope : left.seen[i].scope, before, self);
        if (scratch_count) add_to(listed(self).others, before);
    }
    if ((order & PEAKGATE_ACQUIRE) && of.awaited) {
        const bool narrow = scope == PEAKGATE_BLOCK;
        acquire_from(*of.awaited, self, narrow);
        if (!narrow) forget_awaited(of);
    }
    if (!(order & PEAKGATE_RELEASE)) return;
    Clock* clock = clock_of(self);
    OfThread& own = listed(self);
    for (int which = 0; which <= which_of(scope); ++which) {
        drop(own.fenced[which]);
        own.fenced[which] = keep(clock);
    }
    drop(clock);
}

void peakgate_proxy_fence(int covers) {
    if (!state.checking) return;
    const uint32_t stamp = current_thread().stamp++, block = state.block->number;
    ProxyFences& of = here().proxy_fences[state.current];
    of.fences[of.count++ % FENCES] = {state.epoch, stamp, covers};
    if (!(covers & PEAKGATE_OF_GLOBAL)) return;
    if (block >= global_fence_count) {
        const size_t count = 2 * size_t{block} + 16;
        global_fences = static_cast<GlobalFence*>(realloc(global_fences, count * sizeof(GlobalFence)));
        if (!global_fences) abort();
        memset(global_fences + global_fence_count, 0, (count - global_fence_count) * sizeof(GlobalFence));
        global_fence_count = count;
    }
    GlobalFence& last = global_fences[block];
    last = {state.epoch, stamp, state.current, last.epoch == state.epoch && (last.of_several || last.thread != state.current)};
    settle_block();
    join(known_at_global_fences, others_of(state.current));
}
