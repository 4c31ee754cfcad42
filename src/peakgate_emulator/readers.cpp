// Readers of a word in other blocks than the latest reader, for which alone its cell has room. Recorded only if some
// word has a clock; otherwise no two blocks are ordered, and one reader suffices.
#include "shadow.h"

#include <stdlib.h>
#include <string.h>

namespace peakgate {
namespace {

constexpr int MOST_READERS = 64; // of one word; the oldest are dropped

struct Readers {
    const Cell* cell; // null: an empty entry of the table
    Access* reads;
    int count;
};

Readers* places;
size_t capacity, count;

Readers* place_of(Readers* table, size_t room, const Cell* cell) {
    size_t at = reinterpret_cast<uintptr_t>(cell) * 0x9e3779b97f4a7c15ull >> 20 & (room - 1);
    while (table[at].cell && table[at].cell != cell) at = (at + 1) & (room - 1);
    return &table[at];
}

void grow() {
    const size_t room = capacity ? 2 * capacity : 64;
    auto* larger = static_cast<Readers*>(calloc(room, sizeof(Readers)));
    if (!larger) abort();
    for (size_t i = 0; i < capacity; ++i) {
        if (places[i].cell) *place_of(larger, room, places[i].cell) = places[i];
    }
    free(places);
    places = larger;
    capacity = room;
}

} // namespace

void forget_readers() {
    for (size_t i = 0; i < capacity; ++i) free(places[i].reads);
    free(places);
    places = nullptr;
    capacity = count = 0;
}

void keep_reader(const Cell* cell, const Access& read) {
    if (2 * (count + 1) > capacity) grow();
    Readers& readers = *place_of(places, capacity, cell);
    if (!readers.cell) {
        readers.reads = static_cast<Access*>(malloc(MOST_READERS * sizeof(Access)));
        if (!readers.reads) abort();
        readers.cell = cell;
        ++count;
    }
    if (readers.count == MOST_READERS) memmove(readers.reads, readers.reads + 1, --readers.count * sizeof(Access));
    readers.reads[readers.count++] = read;
}

const Access* unordered_reader(const Cell* cell, uint8_t bytes, Space space) {
    if (!count) return nullptr;
    Readers& readers = *place_of(places, capacity, cell);
    for (int i = 0; i < readers.count; ++i) {
        if ((readers.reads[i].bytes & bytes) && !reads_ordered(readers.reads[i], space)) return &readers.reads[i];
    }
    return nullptr;
}

} // namespace peakgate
