// Clusters: blocks that run together, access each other's shared memory and have a common barrier.
//
// There is one segment of shared memory, which the running block uses. Each other block's is stored in a window of the
// same layout: an address in another block's shared memory is in its window. Blocks of a cluster take turns
// (blocks.cpp), so a window is up to date whenever another block accesses it.
//
// A block's shared memory may be accessed between its begin and its end, and only barriers order these. So an access is
// reported if neither a barrier of the cluster nor anything else orders the block's begin before it, and if nothing
// orders it before the end of the block's last thread, in whatever order the two ran.
#include "shadow.h"

#include <stdio.h>
#include <stdlib.h>

#define PEAKGATE_BUILTIN(name) unsigned name##_x, name##_y, name##_z
PEAKGATE_BUILTIN(peakgate_cluster_size);

namespace peakgate {

constexpr int PHASES = 2; // of the barrier: the current one and the previous one

// The last access of a thread to another block's shared memory.
struct Visit {
    uint32_t epoch, stamp; // epoch 0: none
    uintptr_t address;
    uint64_t arrivals; // number of arrivals of its block at the barrier until then
};

// The clocks of a block's threads that have arrived, by epoch.
struct Arrivals {
    Published published;
    uint32_t epoch;
    bool any;
};

struct Cluster {
    uint32_t number;
    int size, ended;
    uint32_t since; // the first of its epochs
    Block* blocks[MAX_CLUSTER];
    bool begun[MAX_CLUSTER], has_ended[MAX_CLUSTER];
    uint3 indices[MAX_CLUSTER];
    char* windows[MAX_CLUSTER];
    size_t window_rooms[MAX_CLUSTER];
    uint64_t phase; // of the barrier
    int arrived;
    Published passed[PHASES]; // clocks of the threads that arrived
    Arrivals arrivals[MAX_CLUSTER];
    uint64_t waited[MAX_CLUSTER]; // number of phases that some thread of the block has waited for
    Published at_end[MAX_CLUSTER]; // clocks of its ended threads
    Visit* visits[MAX_CLUSTER]; // by rank and thread of the visitor
};

namespace {

Cluster** clusters; // clusters with blocks that have not ended
size_t cluster_count, cluster_room;
Cluster** spare_clusters;
size_t spare_cluster_count, spare_cluster_room;

size_t visitors(const Cluster& cluster) {
    return static_cast<size_t>(cluster.size) * static_cast<size_t>(state.thread_count);
}

Cluster* new_cluster(uint32_t number) {
    auto* cluster = spare_cluster_count ? spare_clusters[--spare_cluster_count] : static_cast<Cluster*>(calloc(1, sizeof(Cluster)));
    if (!cluster) return nullptr;
    cluster->number = number;
    cluster->size = static_cast<int>(cluster_blocks());
    cluster->ended = 0;
    cluster->since = state.last_epoch + 1;
    cluster->phase = 0;
    cluster->arrived = 0;
    for (Published& published : cluster->passed) forget_published(published);
    for (int rank = 0; rank < cluster->size; ++rank) {
        cluster->begun[rank] = cluster->has_ended[rank] = false;
        cluster->waited[rank] = 0;
        cluster->arrivals[rank].any = false;
        forget_published(cluster->arrivals[rank].published);
        forget_published(cluster->at_end[rank]);
        cluster->windows[rank] = shared_copy(cluster->windows[rank], cluster->window_rooms[rank]);
        free(cluster->visits[rank]);
        cluster->visits[rank] = nullptr;
        // Allocated now, or its shadow memory might have been another block's while this cluster runs.
        cluster->blocks[rank] = new_block();
        if (!cluster->windows[rank] || !cluster->blocks[rank]) return nullptr;
        begin_block_of_tensor_memory(*cluster->blocks[rank]); // the other block of a pair may look at it earlier
    }
    append(clusters, cluster_count, cluster_room, cluster);
    return cluster;
}

void remove(Cluster* cluster) {
    for (size_t i = 0; i < cluster_count; ++i) {
        if (clusters[i] == cluster) clusters[i] = clusters[--cluster_count];
    }
    append(spare_clusters, spare_cluster_count, spare_cluster_room, cluster);
}

uint32_t number_of(const Cluster& cluster, size_t rank) {
    return cluster.number * static_cast<uint32_t>(cluster.size) + static_cast<uint32_t>(rank);
}

// ---- the barrier ----

void flush(Cluster& cluster, size_t rank) {
    Arrivals& arrivals = cluster.arrivals[rank];
    if (!arrivals.any) return;
    publish_block(number_of(cluster, rank), arrivals.published, arrivals.epoch, cluster.passed[cluster.phase % PHASES]);
    forget_published(arrivals.published);
    arrivals.any = false;
}

void arrive(Cluster& cluster, bool releases) {
    const auto rank = static_cast<size_t>(state.block->rank);
    Arrivals& arrivals = cluster.arrivals[rank];
    if (releases) {
        if (arrivals.any && arrivals.epoch != state.epoch) flush(cluster, rank);
        publish_to(arrivals.published);
        arrivals.epoch = state.epoch;
        arrivals.any = true;
    } else {
        Published& passed = cluster.passed[cluster.phase % PHASES];
        publish_fenced(passed.others, PEAKGATE_CLUSTER);
        publish_tensors(passed.across, true);
        publish_tensors(passed.arrived, false);
    }
    current_thread().has_arrived = true;
    current_thread().arrived_phase = cluster.phase;
    ++cluster.arrived;
}

int living_threads(const Cluster& cluster) {
    int living = 0;
    for (int rank = 0; rank < cluster.size; ++rank) {
        if (!cluster.begun[rank]) return -1;
        if (!cluster.has_ended[rank]) living += cluster.blocks[rank]->alive;
    }
    return living;
}

const char* words_of(const uint3& index) {
    static char words[48];
    snprintf(words, sizeof words, "(%u, %u, %u)", index.x, index.y, index.z);
    return words;
}

} // namespace

void settle_cluster_barrier(Cluster& cluster) {
    if (!cluster.arrived || cluster.arrived != living_threads(cluster)) return;
    for (int rank = 0; rank < cluster.size; ++rank) flush(cluster, static_cast<size_t>(rank));
    cluster.arrived = 0;
    ++cluster.phase;
    forget_published(cluster.passed[cluster.phase % PHASES]);
    ++state.progress;
    for (int rank = 0; rank < cluster.size; ++rank) {
        for (int i = 0; i < state.thread_count && !cluster.has_ended[rank]; ++i) {
            Thread& thread = cluster.blocks[rank]->threads[i];
            if (thread.status == AT_CLUSTER_BARRIER) thread.status = READY;
        }
    }
}

bool report_cluster_barrier() {
    for (int i = 0; i < state.thread_count; ++i) {
        if (state.threads[i].status != AT_CLUSTER_BARRIER) continue;
        state.current = i;
        const Cluster& cluster = *state.cluster;
        report(DIVERGENT_BARRIER, current_thread().waits_at, 0, "waits for the barrier of the cluster, at which %d of %d threads have arrived",
               cluster.arrived, living_threads(cluster));
        return true;
    }
    return false;
}

// ---- the life of a block ----

uint32_t cluster_blocks() { return peakgate_cluster_size_x * peakgate_cluster_size_y * peakgate_cluster_size_z; }

uint3 index_of_block(uint32_t number) {
    const uint32_t x = peakgate_cluster_size_x, y = peakgate_cluster_size_y, z = peakgate_cluster_size_z;
    const uint32_t across = state.launch.grid[0] / x, down = state.launch.grid[1] / y;
    const uint32_t which = number / cluster_blocks(), in = number % cluster_blocks();
    return {which % across * x + in % x, which / across % down * y + in / x % y, which / (across * down) * z + in / (x * y)};
}

Block* block_of_cluster(uint32_t number) {
    const uint32_t size = cluster_blocks(), which = number / size;
    Cluster* cluster = nullptr;
    for (size_t i = 0; i < cluster_count; ++i) {
        if (clusters[i]->number == which) cluster = clusters[i];
    }
    if (!cluster) cluster = new_cluster(which);
    if (!cluster) return nullptr;
    const auto rank = static_cast<int>(number % size);
    Block* block = cluster->blocks[rank];
    block->cluster = cluster;
    block->rank = rank;
    cluster->begun[rank] = true;
    block->index = index_of_block(number);
    cluster->indices[rank] = block->index;
    return block;
}

void leave_cluster(Block& block) {
    Cluster& cluster = *block.cluster;
    block.cluster = nullptr;
    cluster.has_ended[block.rank] = true;
    if (++cluster.ended == cluster.size) remove(&cluster);
}

void forget_clusters() {
    while (cluster_count) {
        Cluster* cluster = clusters[0];
        for (int rank = 0; rank < cluster->size; ++rank) {
            if (!cluster->begun[rank]) give_back(cluster->blocks[rank]);
        }
        remove(cluster);
    }
}

char* window_of(const Block& block) { return block.cluster->windows[block.rank]; }
uint32_t cluster_since(const Block& block) { return block.cluster->since; }

Block* other_of_pair() {
    if (!state.cluster || state.cluster->size % 2) return nullptr;
    return state.cluster->blocks[state.block->rank ^ 1];
}

void ends_after(Clock* arrivals) {
    if (state.cluster && arrivals) add_published(state.cluster->at_end[state.block->rank].others, arrivals);
}

bool other_of_pair_has_ended() { return state.cluster->has_ended[state.block->rank ^ 1]; }

void end_thread_of_cluster() {
    Cluster& cluster = *state.cluster;
    const int own = state.block->rank;
    if (current_thread().has_arrived && current_thread().arrived_phase == cluster.phase)
        --cluster.arrived; // it no longer counts as living
    publish_across(cluster.at_end[own].others);
    if (state.block->alive > 1) return;
    uintptr_t issued_at = 0;
    if (awaits_copies_of_others(issued_at))
        report(SHARED_RACE, issued_at, 0, "copy to block %s of the cluster, which may have ended before its bytes come",
               words_of(state.block->index));
    for (int rank = 0; rank < cluster.size; ++rank) {
        if (rank == own || !cluster.begun[rank] || !reads_shared_of(*state.block, *cluster.blocks[rank], issued_at)) continue;
        report(SHARED_RACE, issued_at, 0, "copy from shared memory that its block may leave before it is read: nothing says that it has arrived");
    }
    for (int i = 0; i < AGENTS_OF_A_KIND && other_of_pair(); ++i) {
        const int by = agent(PRODUCTS, 0) + i;
        const uint32_t stamp = last_of_peer(by, issued_at);
        if (!stamp || has_published(cluster.at_end[own], number_of(cluster, static_cast<size_t>(own ^ 1)), by, 0, stamp)) continue;
        report(TENSOR_RACE, issued_at, 0, "block %s of a pair may end before the other one's tcgen05 operation has read its memory: it waits "
               "for no tcgen05.commit that comes after it",
               words_of(state.block->index));
    }
    for (size_t i = 0; cluster.visits[own] && i < visitors(cluster); ++i) {
        const Visit& visit = cluster.visits[own][i];
        const size_t rank = i / static_cast<size_t>(state.thread_count);
        const auto thread = static_cast<int>(i % static_cast<size_t>(state.thread_count));
        if (!visit.epoch || cluster.waited[own] > visit.arrivals) continue;
        if (has_published(cluster.at_end[own], number_of(cluster, rank), thread, visit.epoch, visit.stamp)) continue;
        report(SHARED_RACE, visit.address, 0,
               "access to shared memory of block %s of the cluster, which may have ended by then: it waits for nothing that comes "
               "after the access",
               words_of(state.block->index));
    }
}

// ---- other blocks' shared memory ----

Place place_in_cluster(uintptr_t address) {
    const int rank = address - state.shared >= state.shared_size ? rank_reached(address) : -1;
    if (rank < 0) return {state.block, address};
    return {state.cluster->blocks[rank], state.shared + (address - reinterpret_cast<uintptr_t>(state.cluster->windows[rank]))};
}

uintptr_t address_in(int rank, uintptr_t address) {
    if (rank == state.block->rank) return address;
    return reinterpret_cast<uintptr_t>(state.cluster->windows[rank]) + (address - state.shared);
}

int rank_reached(uintptr_t address) {
    for (int rank = 0; state.cluster && rank < state.cluster->size; ++rank) {
        if (address - reinterpret_cast<uintptr_t>(state.cluster->windows[rank]) < state.shared_size) return rank;
    }
    return -1;
}

uintptr_t word_in_cluster(const Cell* cell) {
    const Cluster& cluster = *state.cluster;
    for (int rank = 0; rank < cluster.size; ++rank) {
        if (!cluster.begun[rank] || cluster.has_ended[rank]) continue;
        const Cell* cells = cluster.blocks[rank]->shadow;
        if (cell >= cells && cell <= cells + state.shared_size / 4)
            return reinterpret_cast<uintptr_t>(cluster.windows[rank]) + static_cast<uintptr_t>(cell - cells) * 4;
    }
    return 0;
}

Block& visit(int rank, uintptr_t caller) {
    Cluster& cluster = *state.cluster;
    const int own = state.block->rank;
    if (rank == own) {
        report(NOT_EMULATED, caller, 0, "a pointer to the own shared memory that another block of the cluster has made");
        abandon_launch();
    }
    if (cluster.has_ended[rank]) {
        report(SHARED_RACE, caller, 0, "access to shared memory of block %s of the cluster, which has ended", words_of(cluster.indices[rank]));
        abandon_launch();
    }
    if (!cluster.waited[own] && !knows_of(number_of(cluster, static_cast<size_t>(rank)))) {
        report(SHARED_RACE, caller, 0, "access to shared memory of another block of the cluster (rank %d), which need not have begun: no "
               "barrier of the cluster came before",
               rank);
        abandon_launch();
    }
    if (state.sending) return *cluster.blocks[rank];
    Visit*& visits = cluster.visits[rank];
    if (!visits) visits = static_cast<Visit*>(calloc(visitors(cluster), sizeof(Visit)));
    if (!visits) abort();
    const Thread& self = current_thread();
    const uint64_t arrivals = self.has_arrived ? self.arrived_phase + 1 : cluster.phase;
    visits[static_cast<size_t>(own) * static_cast<size_t>(state.thread_count) + static_cast<size_t>(state.current)] = {
        state.epoch, self.stamp, caller, arrivals};
    return *cluster.blocks[rank];
}

} // namespace peakgate

using namespace peakgate;

void peakgate_cluster_dims(unsigned x, unsigned y, unsigned z) {
    if (x == peakgate_cluster_size_x && y == peakgate_cluster_size_y && z == peakgate_cluster_size_z) return;
    const uint32_t* grid = state.launch.grid;
    const uintptr_t caller = PEAKGATE_CALLER;
    if (!x || !y || !z || x * y * z > MAX_CLUSTER) {
        report(LAUNCH_REFUSED, caller, 0, "a cluster of %u x %u x %u blocks; at most %d are possible", x, y, z, MAX_CLUSTER);
        abandon_launch();
    }
    if (grid[0] % x || grid[1] % y || grid[2] % z) {
        report(LAUNCH_REFUSED, caller, 0, "a grid of %u x %u x %u blocks is not a multiple of clusters of %u x %u x %u",
               grid[0], grid[1], grid[2], x, y, z);
        abandon_launch();
    }
    restart_in_clusters(x, y, z);
}

unsigned peakgate_cluster_rank() { return state.cluster ? static_cast<unsigned>(state.block->rank) : 0; }

void peakgate_cluster_arrive(int releases, const void* caller) {
    if (!state.cluster) return;
    Thread& self = current_thread();
    if (self.has_arrived) {
        report(DIVERGENT_BARRIER, reinterpret_cast<uintptr_t>(caller), 0, "arrives twice at the barrier of the cluster without waiting for it");
        abandon_launch();
    }
    arrive(*state.cluster, releases != 0);
    settle_cluster_barrier(*state.cluster);
}

void peakgate_cluster_wait(int site, const void* caller) {
    if (!state.cluster) { // of one block
        peakgate_barrier_from(PEAKGATE_BARRIER_PLAIN, 0, site, caller);
        return;
    }
    Cluster& cluster = *state.cluster;
    Thread& self = current_thread();
    if (!self.has_arrived) {
        report(DIVERGENT_BARRIER, reinterpret_cast<uintptr_t>(caller), 0, "waits for the barrier of the cluster without having arrived");
        abandon_launch();
    }
    const uint64_t phase = self.arrived_phase;
    while (cluster.phase == phase) wait_as(AT_CLUSTER_BARRIER, reinterpret_cast<uintptr_t>(caller));
    self.has_arrived = false;
    acquire_from(cluster.passed[phase % PHASES], state.current);
    complete_tensors(cluster.passed[phase % PHASES].arrived);
    uint64_t& waited = cluster.waited[state.block->rank];
    if (waited <= phase) waited = phase + 1;
}

char* peakgate_cluster_pointer(uint32_t address) {
    const auto own = reinterpret_cast<uintptr_t>(peakgate_shared_base());
    const uint32_t rank = address >> PEAKGATE_RANK_SHIFT, offset = address & ((1u << PEAKGATE_RANK_SHIFT) - 1);
    if (!state.cluster || rank >= static_cast<uint32_t>(state.cluster->size)) return reinterpret_cast<char*>(own + address);
    return reinterpret_cast<char*>(address_in(static_cast<int>(rank), own + offset));
}

uint64_t peakgate_cluster_address(const void* pointer) {
    const auto address = reinterpret_cast<uintptr_t>(pointer), own = reinterpret_cast<uintptr_t>(peakgate_shared_base());
    const int rank = rank_reached(address);
    if (rank < 0) return (address - own) | peakgate_own_window;
    const uintptr_t window = reinterpret_cast<uintptr_t>(state.cluster->windows[rank]) - PEAKGATE_RESERVED_SHARED;
    return static_cast<uint64_t>(rank) << PEAKGATE_RANK_SHIFT | (address - window);
}

void* peakgate_map_shared(const void* pointer, unsigned rank, const void* caller) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    if (rank >= cluster_blocks()) {
        report(OUT_OF_BOUNDS, reinterpret_cast<uintptr_t>(caller), 0, "block %u of a cluster of %u", rank, cluster_blocks());
        abandon_launch();
    }
    const Place place = place_in_cluster(address);
    if (!state.cluster || place.address - state.shared >= state.shared_size) return const_cast<void*>(pointer);
    return reinterpret_cast<void*>(address_in(static_cast<int>(rank), place.address));
}
