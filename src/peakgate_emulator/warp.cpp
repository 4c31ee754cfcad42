// Warp primitives: the lanes of a mask meet, exchange values, and go on.
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

namespace peakgate {

// Lanes that meet in a warp primitive. It is filled until all have arrived, then emptied as each takes its result. Each
// one in use contains a lane, and a lane is in only one, so a warp needs at most as many as it has lanes.
struct Rendezvous {
    PeakgateWarpOperation operation;
    unsigned mask;
    unsigned arrived; // lanes that wait for the others
    unsigned met;     // the lanes that met, once all have arrived
    unsigned leaving; // those that have not taken their result
    unsigned undefined; // those that have taken one from a lane that does not take part
    unsigned ballot;
    void (*together)(void* const*);
    uintptr_t first_at; // where the first lane has called
    char values[WARP][8];
};

struct Registers {
    uint32_t history; // of the numbers of registers that a warp has set
    uintptr_t set_at;
};

struct Warps {
    Rendezvous rendezvous[MAX_THREADS];
    Registers registers[MAX_THREADS / WARP];
    unsigned living_lanes[MAX_THREADS / WARP];
    bool in_use[MAX_THREADS / WARP]; // by warp: its lanes have met in this block
    bool registers_set;
    uint32_t random; // for values of lanes that do not take part
};

Warps* new_warps() { return static_cast<Warps*>(calloc(1, sizeof(Warps))); }

namespace {

Warps& here() { return *state.block->warps; }

bool complete(const Rendezvous& meeting, int warp) {
    // Operations that need a part from all lanes also wait for ended ones.
    const unsigned needed = meeting.operation == PEAKGATE_WARP_TOGETHER ? ~0u : here().living_lanes[warp];
    return meeting.arrived && meeting.arrived == (meeting.mask & needed);
}

void let_go(Rendezvous& meeting, int warp) {
    int threads[WARP], count = 0;
    for (unsigned left = meeting.arrived; left; left &= left - 1) {
        threads[count] = warp * WARP + __builtin_ctz(left);
        Thread& thread = state.threads[threads[count++]];
        if (thread.status == IN_WARP) thread.status = READY;
    }
    if (meeting.operation == PEAKGATE_WARP_TOGETHER) {
        void* offered[WARP];
        memcpy(offered, meeting.values, sizeof offered);
        meeting.together(offered);
    }
    // Shuffles, votes and similar primitives are not memory barriers.
    if (meeting.operation == PEAKGATE_WARP_SYNC) threads_met(threads, count);
    meeting.met = meeting.arrived;
    meeting.leaving = meeting.arrived;
    meeting.arrived = 0;
}

// The rendezvous where lanes of this mask already wait, or an empty one. Groups of one warp may meet at the same time,
// even if one mask includes the other: the smaller group then joins the larger one later.
Rendezvous& find_rendezvous(unsigned mask, int warp) {
    Rendezvous *empty = nullptr, *rendezvous = here().rendezvous;
    for (int i = warp * WARP; i < (warp + 1) * WARP; ++i) {
        if (rendezvous[i].arrived && rendezvous[i].mask == mask) return rendezvous[i];
        if (!empty && !rendezvous[i].arrived && !rendezvous[i].leaving) empty = &rendezvous[i];
    }
    return *empty;
}

void join(Rendezvous& meeting, const PeakgateWarpCall& call, int lane, uintptr_t caller) {
    if (!meeting.arrived) {
        meeting.mask = call.mask;
        meeting.operation = call.operation;
        meeting.together = call.together;
        meeting.first_at = caller;
        meeting.ballot = 0;
        meeting.undefined = 0;
    } else if (meeting.operation != call.operation || meeting.together != call.together) {
        report(WARP_MASK, caller, meeting.first_at, "lanes of one warp meet in different warp primitives");
        abandon_launch();
    }
    meeting.arrived |= 1u << lane;
    if (call.value) memcpy(meeting.values[lane], call.value, static_cast<size_t>(call.size));
    if (call.operation == PEAKGATE_WARP_BALLOT) {
        int predicate;
        memcpy(&predicate, call.value, sizeof predicate);
        if (predicate) meeting.ballot |= 1u << lane;
    }
}

// The source lane of a shuffle: its own if the distance leads out of the sub-group.
int source_lane(const PeakgateWarpCall& call, int lane) {
    const int first = lane & ~(call.width - 1);
    const int end = first + call.width;
    int source = lane;
    switch (call.operation) {
    case PEAKGATE_WARP_SHUFFLE_INDEX:
        source = first + (call.lane & (call.width - 1));
        break;
    case PEAKGATE_WARP_SHUFFLE_UP:
        source = lane - call.lane;
        break;
    case PEAKGATE_WARP_SHUFFLE_DOWN:
        source = lane + call.lane;
        break;
    case PEAKGATE_WARP_SHUFFLE_XOR:
        source = lane ^ call.lane;
        break;
    case PEAKGATE_WARP_SYNC:
    case PEAKGATE_WARP_BALLOT:
    case PEAKGATE_WARP_TOGETHER:
    case PEAKGATE_WARP_MATCH:
    case PEAKGATE_WARP_REDUCE:
    case PEAKGATE_WARP_GROUP:
        break;
    }
    const bool below = source < first && call.operation == PEAKGATE_WARP_SHUFFLE_UP;
    return source < 0 || below || source >= end ? lane : source;
}

// The undefined value of a lane that does not take part: NaN in the first order of threads, in others a large number of
// either sign or, at random, what the reader itself has given, as is often so on a GPU.
void put_undefined(const PeakgateWarpCall& call, int source) {
    const auto size = static_cast<size_t>(call.size);
    here().random = here().random * 1664525u + 1013904223u;
    if (state.launch.schedule && here().random >> 30 == 0)
        memcpy(call.result, call.value, size);
    else
        memset(call.result, state.launch.schedule == 0 ? 0xff : source % 2 ? 0xfb : 0x7b, size);
}

// Reports a setmaxnreg that not all four warps of a group have executed, when the last of them has ended.
void check_registers(int warp) {
    constexpr int group = 4;
    const int first = warp / group * group;
    if ((first + group) * WARP > state.thread_count) return;
    for (int other = first; other < first + group; ++other)
        if (here().living_lanes[other]) return;
    for (int other = first; other < first + group; ++other) {
        const Registers &own = here().registers[other], &next = here().registers[first + (other + 1) % group];
        if (own.history == next.history || !own.set_at) continue;
        report(WARP_MASK, own.set_at, 0, "setmaxnreg that the four warps of a group do not all execute with the same numbers");
        return;
    }
}

} // namespace

void begin_block_of_warps() {
    Warps& warps = here();
    warps.registers_set = false;
    warps.random = state.launch.schedule;
    for (int warp = 0; warp * WARP < state.thread_count; ++warp) {
        const int lanes = state.thread_count - warp * WARP;
        warps.living_lanes[warp] = lanes >= WARP ? ~0u : (1u << lanes) - 1;
        for (int lane = 0; warps.in_use[warp] && lane < WARP; ++lane) {
            warps.rendezvous[warp * WARP + lane].arrived = 0;
            warps.rendezvous[warp * WARP + lane].leaving = 0;
        }
        warps.in_use[warp] = false;
        warps.registers[warp] = {};
    }
}

void leave_warp(int thread) {
    const int warp = thread / WARP;
    here().living_lanes[warp] &= ~(1u << thread % WARP);
    for (int lane = 0; here().in_use[warp] && lane < WARP; ++lane) {
        Rendezvous& meeting = here().rendezvous[warp * WARP + lane];
        if (complete(meeting, warp)) let_go(meeting, warp);
    }
    if (here().registers_set && !here().living_lanes[warp]) check_registers(warp);
}

} // namespace peakgate

using namespace peakgate;

unsigned peakgate_warp(const PeakgateWarpCall* call, const void* caller) {
    const int lane = state.current % WARP;
    const int warp = state.current / WARP;
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    if (!(call->mask >> lane & 1)) {
        report(WARP_MASK, called_at, 0, "lane %d calls a warp primitive whose mask %#x (bit n: lane n) leaves it out",
               lane, call->mask);
        abandon_launch();
    }
    if (call->width < 1 || call->width > WARP || (call->width & (call->width - 1))) {
        report(WARP_MASK, called_at, 0, "shuffle with a width of %d, expected a power of two up to %d", call->width, WARP);
        abandon_launch();
    }
    here().in_use[warp] = true;
    Rendezvous& meeting = find_rendezvous(call->mask, warp);
    join(meeting, *call, lane, called_at);
    if (complete(meeting, warp)) {
        let_go(meeting, warp);
    } else {
        current_thread().warp_mask = call->mask;
        wait_as(IN_WARP, called_at);
    }
    if (call->operation >= PEAKGATE_WARP_MATCH) {
        const auto size = static_cast<size_t>(call->size);
        for (size_t from = 0; from < WARP; ++from) {
            if (meeting.met >> from & 1) memcpy(static_cast<char*>(call->result) + from * size, meeting.values[from], size);
        }
        meeting.ballot = meeting.met;
    } else if (call->result) {
        const int source = source_lane(*call, lane);
        if (meeting.met >> source & 1)
            memcpy(call->result, meeting.values[source], static_cast<size_t>(call->size));
        else {
            put_undefined(*call, source);
            meeting.undefined |= 1u << lane;
        }
    }
    meeting.leaving &= ~(1u << lane);
    // Of one whose distance leads beyond the lanes that are there, the results are usually ignored.
    const bool selects = call->operation == PEAKGATE_WARP_SHUFFLE_INDEX || call->operation == PEAKGATE_WARP_SHUFFLE_XOR;
    if (selects && !meeting.leaving && meeting.undefined == meeting.met)
        report(WARP_MASK, called_at, 0, "shuffle in which no lane gets a value: lane %d asks lane %d, which does not take part", lane,
               source_lane(*call, lane));
    return meeting.ballot;
}

void peakgate_registers(unsigned count, const void* caller) {
    if (state.current % WARP) return;
    Registers& own = here().registers[state.current / WARP];
    own = {own.history * 31 + count, reinterpret_cast<uintptr_t>(caller)};
    here().registers_set = true;
}

void peakgate_absent(unsigned lanes, const void* caller) {
    const int first = state.current / WARP * WARP;
    const int begun = state.thread_count - first; // of a warp in part
    const unsigned absent = begun < WARP ? lanes & ((1u << begun) - 1) : lanes;
    if (!absent) return;
    report(WARP_MASK, reinterpret_cast<uintptr_t>(caller), 0,
           "a reduction or scan of a group that its lane %d, which has ended, does not call", __builtin_ctz(absent));
}
