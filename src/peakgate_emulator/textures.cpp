// Textures and surfaces. The mapping of coordinates to texels, also outside, follows "Texture Fetching" in the CUDA C++
// Programming Guide: floor for points; linear filtering with weights of 8 fractional bits. The guide does not define
// how these and the result are rounded, nor the layer for an index beyond the last: here as on an H200 (tests/digests).
#include "runtime.h"

#include <string.h>

namespace peakgate {
namespace {

constexpr int FRACTION_BITS = 8; // of a filter's weight
constexpr int ONE = 1 << FRACTION_BITS;
constexpr double FARTHEST = 1 << 30; // coordinates beyond are clamped to this
constexpr int OUTSIDE = -1;
constexpr int MAX_CHANNELS = 4;

const Texture& texture_of(unsigned long long object, const char* function, int dimensions, bool layered, bool surface,
                          uintptr_t caller) {
    const auto first = reinterpret_cast<uintptr_t>(state.launch.textures);
    const uintptr_t offset = static_cast<uintptr_t>(object) - first;
    const char* kind = surface ? "surface" : "texture";
    if (offset % sizeof(Texture) || offset / sizeof(Texture) >= static_cast<uintptr_t>(state.launch.texture_count)) {
        report(OUT_OF_BOUNDS, caller, 0, "%s of an object that is no %s (%#llx)", function, kind, object);
        abandon_launch();
    }
    const Texture& texture = state.launch.textures[offset / sizeof(Texture)];
    if (texture.is_surface == surface && texture.dimensions == dimensions && (texture.layers != 0) == layered)
        return texture;
    report(OUT_OF_BOUNDS, caller, 0, "%s of argument %d, which is a %s of %s%s%d dimensions", function,
           texture.buffer->argument, texture.is_surface ? "surface" : "texture", texture.layers ? "layers of " : "",
           texture.dimensions ? "" : "linear memory, ", texture.dimensions ? texture.dimensions : 1);
    abandon_launch();
}

size_t texel_bytes(const Texture& texture) {
    return static_cast<size_t>(texture.channels) * static_cast<size_t>(texture.channel_bytes);
}

char* texel_at(const Texture& texture, const int* at, int layer) {
    const auto width = static_cast<size_t>(texture.size[0]), height = static_cast<size_t>(texture.size[1]);
    const size_t slice = texture.layers ? static_cast<size_t>(layer) : static_cast<size_t>(at[2]);
    const size_t index = (slice * height + static_cast<size_t>(at[1])) * width + static_cast<size_t>(at[0]);
    return static_cast<char*>(texture.buffer->device) + index * texel_bytes(texture);
}

int clamped(int at, int size) { return at < 0 ? 0 : at >= size ? size - 1 : at; }

// Index of the texel at a coordinate along one dimension.
int placed(const Texture& texture, int at, int size) {
    if (at >= 0 && at < size) return at;
    if (texture.address == BORDER) return OUTSIDE;
    if (texture.address == CLAMP || !texture.normalized_coordinates) return clamped(at, size);
    const int period = texture.address == WRAP ? size : 2 * size;
    const int within = (at % period + period) % period;
    return within < size ? within : period - 1 - within;
}

float half_value(uint16_t bits) {
    const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const float magnitude = exponent == 31 ? (mantissa ? __builtin_nanf("") : __builtin_inff())
                            : exponent     ? __builtin_ldexpf(static_cast<float>(1024 + mantissa), exponent - 25)
                                           : __builtin_ldexpf(static_cast<float>(mantissa), -24);
    return bits & 0x8000 ? -magnitude : magnitude;
}

int integer_value(const Texture& texture, const char* from) {
    const bool is_signed = texture.kind == SIGNED_TEXEL;
    if (texture.channel_bytes == 1) return is_signed ? static_cast<int8_t>(*from) : static_cast<uint8_t>(*from);
    if (texture.channel_bytes == 2) {
        uint16_t bits;
        memcpy(&bits, from, sizeof bits);
        return is_signed ? static_cast<int16_t>(bits) : bits;
    }
    int value;
    memcpy(&value, from, sizeof value);
    return value;
}

float float_value(const Texture& texture, const char* from) {
    if (texture.kind == FLOATING_TEXEL && texture.channel_bytes == 4) {
        float value;
        memcpy(&value, from, sizeof value);
        return value;
    }
    if (texture.kind == FLOATING_TEXEL) {
        uint16_t bits;
        memcpy(&bits, from, sizeof bits);
        return half_value(bits);
    }
    const int bits = 8 * texture.channel_bytes - (texture.kind == SIGNED_TEXEL);
    const float value = static_cast<float>(integer_value(texture, from)) / static_cast<float>((1 << bits) - 1);
    return value < -1 ? -1 : value;
}

// The channels of one texel: floats, or 32-bit integers; zero outside.
void read_texel(const Texture& texture, const int* at, int layer, bool floats, void* channels, uintptr_t caller) {
    memset(channels, 0, MAX_CHANNELS * sizeof(float));
    for (int i = 0; i < 3; ++i)
        if (at[i] == OUTSIDE) return;
    const char* from = texel_at(texture, at, layer);
    check_cached_read(from, texel_bytes(texture), caller);
    for (int i = 0; i < texture.channels; ++i, from += texture.channel_bytes) {
        if (floats)
            static_cast<float*>(channels)[i] = float_value(texture, from);
        else
            static_cast<int*>(channels)[i] = integer_value(texture, from);
    }
}

// Weights of the 2, 4 or 8 neighbours, whose sum is ONE: bit `i` of a neighbour's number says whether it is the second
// one along dimension `i`. Products are rounded to FRACTION_BITS so that the sum of a pair's weights is preserved.
void share_out(const int* fraction, int* shares) {
    const int both = (fraction[1] * fraction[2] + ONE / 2) >> FRACTION_BITS;
    const int pairs[4] = {ONE - fraction[1] - fraction[2] + both, fraction[1] - both, fraction[2] - both, both};
    for (int pair = 0; pair < 4; ++pair) {
        const int tie = pair & 1 ? ONE / 2 : ONE / 2 - 1;
        shares[2 * pair + 1] = (pairs[pair] * fraction[0] + tie) >> FRACTION_BITS;
        shares[2 * pair] = pairs[pair] - shares[2 * pair + 1];
    }
}

// Rounds to `bits` significant bits, ties away from zero.
double rounded(double value, int bits) {
    int exponent;
    __builtin_frexp(value, &exponent);
    return __builtin_ldexp(__builtin_round(__builtin_ldexp(value, bits - exponent)), exponent - bits);
}

// Filtered integers have 16 bits, filtered halves the precision of a half.
float filtered_value(const Texture& texture, double sum) {
    if (texture.kind == FLOATING_TEXEL) return static_cast<float>(rounded(sum, texture.channel_bytes == 4 ? 24 : 11));
    const double largest = texture.kind == SIGNED_TEXEL ? 32767 : 65535;
    const double largest_texel = (1 << (8 * texture.channel_bytes - (texture.kind == SIGNED_TEXEL))) - 1;
    return static_cast<float>(__builtin_fmax(__builtin_round(sum * (largest / largest_texel)) / largest, -1));
}

void filter(const Texture& texture, const double* at, int layer, float* result, uintptr_t caller) {
    int first[3] = {0, 0, 0}, fraction[3] = {0, 0, 0}, shares[8];
    for (int i = 0; i < texture.dimensions; ++i) {
        const auto fixed = static_cast<long>(__builtin_floor((at[i] - 0.5) * ONE + 0.5));
        first[i] = static_cast<int>(fixed >> FRACTION_BITS);
        fraction[i] = static_cast<int>(fixed & (ONE - 1));
        if (texture.address == CLAMP && placed(texture, first[i], texture.size[i]) ==
                                            placed(texture, first[i] + 1, texture.size[i]))
            fraction[i] = 0; // a single texel
    }
    share_out(fraction, shares);
    double sums[MAX_CHANNELS] = {0, 0, 0, 0};
    for (int corner = 0; corner < 1 << texture.dimensions; ++corner) {
        if (shares[corner] == 0) continue;
        int tap[3] = {0, 0, 0};
        for (int i = 0; i < texture.dimensions; ++i)
            tap[i] = placed(texture, first[i] + (corner >> i & 1), texture.size[i]);
        union {
            float floats[MAX_CHANNELS];
            int integers[MAX_CHANNELS];
        } texel;
        const bool floats = texture.kind == FLOATING_TEXEL;
        read_texel(texture, tap, layer, floats, &texel, caller);
        for (int i = 0; i < MAX_CHANNELS; ++i)
            sums[i] += shares[corner] * (floats ? static_cast<double>(texel.floats[i]) : texel.integers[i]) / ONE;
    }
    for (int i = 0; i < MAX_CHANNELS; ++i) result[i] = filtered_value(texture, sums[i]);
}

} // namespace
} // namespace peakgate

using namespace peakgate;

void peakgate_fetch(const PeakgateFetch* fetch, void* result, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    const Texture& texture = texture_of(fetch->object, fetch->function, fetch->dimensions, fetch->layered, false, called_at);
    const bool floats = texture.kind == FLOATING_TEXEL || texture.normalized_values;
    if (floats != static_cast<bool>(fetch->wants_floats) || fetch->channels > texture.channels) {
        report(NOT_EMULATED, called_at, 0, "%s with a result of %d %s channels from a texture that gives %d %s",
               fetch->function, fetch->channels, fetch->wants_floats ? "floating-point" : "integer", texture.channels,
               floats ? "floating-point" : "integer");
        abandon_launch();
    }
    float read[MAX_CHANNELS];
    if (texture.dimensions == 0) {
        const int at[3] = {fetch->texel, 0, 0};
        if (at[0] < 0 || at[0] >= texture.size[0]) {
            report(OUT_OF_BOUNDS, called_at, 0, "%s of texel %d of argument %d, which is linear memory of %d texels",
                   fetch->function, at[0], texture.buffer->argument, texture.size[0]);
            abandon_launch();
        }
        read_texel(texture, at, 0, floats, read, called_at);
    } else {
        double at[3] = {0, 0, 0};
        int nearest[3] = {0, 0, 0};
        const bool beyond = fetch->texel < 0 || fetch->texel >= texture.layers; // the last layer, for both sides
        const int layer = beyond && texture.layers ? texture.layers - 1 : fetch->texel;
        for (int i = 0; i < texture.dimensions; ++i) {
            const auto size = static_cast<float>(texture.size[i]);
            const auto scaled = static_cast<double>(texture.normalized_coordinates ? fetch->at[i] * size : fetch->at[i]);
            at[i] = scaled != scaled ? 0 : __builtin_fmin(__builtin_fmax(scaled, -FARTHEST), FARTHEST);
            nearest[i] = placed(texture, static_cast<int>(__builtin_floor(at[i])), texture.size[i]);
        }
        if (texture.linear)
            filter(texture, at, layer, read, called_at);
        else
            read_texel(texture, nearest, layer, floats, read, called_at);
    }
    memcpy(result, read, static_cast<size_t>(fetch->channels) * sizeof(float));
}

namespace {

// Address of the access; null if it is outside, and then the access has no effect.
char* surface_place(const PeakgateSurfaceAccess* access, uintptr_t caller) {
    const Texture& texture =
        texture_of(access->object, access->function, access->dimensions, access->layered, true, caller);
    const int width = texture.size[0] * static_cast<int>(texel_bytes(texture));
    const int sizes[3] = {width / access->size, texture.size[1], texture.layers ? texture.layers : texture.size[2]};
    if (access->at[0] % access->size) {
        report(MISALIGNED, caller, 0, "%s of %d bytes at byte %d of a row: expected a multiple of them", access->function,
               access->size, access->at[0]);
        abandon_launch();
    }
    int at[3] = {access->at[0] / access->size, access->at[1], access->at[2]};
    for (int i = 0; i < 3; ++i) {
        if (at[i] >= 0 && at[i] < sizes[i]) continue;
        if (access->boundary == PEAKGATE_BOUNDARY_ZERO) return nullptr;
        if (access->boundary == PEAKGATE_BOUNDARY_TRAP) {
            report(OUT_OF_BOUNDS, caller, 0, "%s at (%d, %d, %d) of argument %d, a surface of (%d, %d, %d), x in bytes",
                   access->function, access->at[0], access->at[1], access->at[2], texture.buffer->argument, width, sizes[1],
                   sizes[2]);
            abandon_launch();
        }
        at[i] = clamped(at[i], sizes[i]);
    }
    const auto row = static_cast<size_t>(at[2]) * static_cast<size_t>(sizes[1]) + static_cast<size_t>(at[1]);
    return static_cast<char*>(texture.buffer->device) + row * static_cast<size_t>(width) +
           static_cast<size_t>(at[0]) * static_cast<size_t>(access->size);
}

} // namespace

void peakgate_surface_read(const PeakgateSurfaceAccess* access, void* value, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    const auto size = static_cast<size_t>(access->size);
    const char* place = surface_place(access, called_at);
    memset(value, 0, size);
    if (!place) return;
    check_cached_read(place, size, called_at);
    memcpy(value, place, size);
}

void peakgate_surface_write(const PeakgateSurfaceAccess* access, const void* value, const void* caller) {
    const auto called_at = reinterpret_cast<uintptr_t>(caller);
    const auto size = static_cast<size_t>(access->size);
    char* place = surface_place(access, called_at);
    if (!place) return;
    check_write(place, size, called_at);
    memcpy(place, value, size);
}
