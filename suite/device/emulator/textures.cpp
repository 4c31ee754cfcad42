// Textures and surfaces. How coordinates become texels, and what lies outside, is what the CUDA C++ Programming Guide says
// under "Texture Fetching": floor for points; linear filtering with weights of 8 fractional bits.
#include "runtime.h"

#include <math.h>
#include <string.h>

namespace peakgate {
namespace {

constexpr int FRACTION_BITS = 8; // of a filter's weight
constexpr int ONE = 1 << FRACTION_BITS;
constexpr double FARTHEST = 1 << 30; // coordinates beyond are as good as there
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

// Where along one dimension a texel is that the coordinate asks for.
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
    const float magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                            : exponent     ? ldexpf(static_cast<float>(1024 + mantissa), exponent - 25)
                                           : ldexpf(static_cast<float>(mantissa), -24);
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

// The channels of one texel: floats, or 32-bit integers. What is outside is zero.
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

// Two neighbours along each dimension, weighted by how near they are.
void filter(const Texture& texture, const double* at, int layer, float* result, uintptr_t caller) {
    int first[3] = {0, 0, 0}, weight[3] = {0, 0, 0};
    for (int i = 0; i < texture.dimensions; ++i) {
        const auto fixed = static_cast<long>(floor((at[i] - 0.5) * ONE + 0.5));
        first[i] = static_cast<int>(fixed >> FRACTION_BITS);
        weight[i] = static_cast<int>(fixed & (ONE - 1));
    }
    double sums[MAX_CHANNELS] = {0, 0, 0, 0};
    for (int corner = 0; corner < 1 << texture.dimensions; ++corner) {
        int tap[3] = {0, 0, 0};
        double share = 1;
        for (int i = 0; i < texture.dimensions; ++i) {
            const int second = corner >> i & 1;
            tap[i] = placed(texture, first[i] + second, texture.size[i]);
            share *= static_cast<double>(second ? weight[i] : ONE - weight[i]) / ONE;
        }
        if (share == 0) continue;
        float texel[MAX_CHANNELS];
        read_texel(texture, tap, layer, true, texel, caller);
        for (int i = 0; i < MAX_CHANNELS; ++i) sums[i] += share * static_cast<double>(texel[i]);
    }
    for (int i = 0; i < MAX_CHANNELS; ++i) result[i] = static_cast<float>(sums[i]);
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
        const int layer = clamped(fetch->texel, texture.layers ? texture.layers : 1);
        for (int i = 0; i < texture.dimensions; ++i) {
            const auto size = static_cast<float>(texture.size[i]);
            const auto scaled = static_cast<double>(texture.normalized_coordinates ? fetch->at[i] * size : fetch->at[i]);
            at[i] = scaled != scaled ? 0 : fmin(fmax(scaled, -FARTHEST), FARTHEST);
            nearest[i] = placed(texture, static_cast<int>(floor(at[i])), texture.size[i]);
        }
        if (texture.linear)
            filter(texture, at, layer, read, called_at);
        else
            read_texel(texture, nearest, layer, floats, read, called_at);
    }
    memcpy(result, read, static_cast<size_t>(fetch->channels) * sizeof(float));
}

namespace {

// Where in memory the access goes; null where there is nothing, and nothing is to be done.
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
