// Texture and surface functions, implemented by the runtime (textures.cpp). Included after cuda_cpu.h for kernels that
// use one.
#pragma once

#include "cuda_cpu.h"

typedef unsigned long long cudaTextureObject_t, cudaSurfaceObject_t, CUtexObject, CUsurfObject;
enum cudaSurfaceBoundaryMode {
    cudaBoundaryModeZero = PEAKGATE_BOUNDARY_ZERO,
    cudaBoundaryModeClamp = PEAKGATE_BOUNDARY_CLAMP,
    cudaBoundaryModeTrap = PEAKGATE_BOUNDARY_TRAP
};

namespace peakgate {
// A number, or a vector of numbers whose first member is `x`.
template <class T, bool = __is_class(T)> struct Texel {
    using Channel = T;
};
template <class T> struct Texel<T, true> {
    using Channel = decltype(T::x);
};
template <class T> constexpr bool is_number_with_fraction = static_cast<T>(0.5f) != static_cast<T>(0);

template <class T> __attribute__((no_sanitize("thread"))) T fetch(PeakgateFetch what, const void* caller) {
    using Channel = typename Texel<T>::Channel;
    constexpr int channels = sizeof(T) / sizeof(Channel);
    what.channels = channels;
    what.wants_floats = is_number_with_fraction<Channel>;
    union {
        float floats[4];
        int integers[4];
    } read;
    peakgate_fetch(&what, &read, caller);
    Channel converted[channels];
    for (int i = 0; i < channels; ++i) {
        if constexpr (is_number_with_fraction<Channel>)
            converted[i] = static_cast<Channel>(read.floats[i]);
        else
            converted[i] = static_cast<Channel>(read.integers[i]);
    }
    T result;
    __builtin_memcpy(&result, converted, sizeof result);
    return result;
}
} // namespace peakgate

#define PEAKGATE_FETCH(name, dimensions, layered, parameters, x, y, z, texel)                                          \
    template <class T> PEAKGATE_HELPER T name parameters {                                                             \
        return peakgate::fetch<T>({#name, object, dimensions, layered, {x, y, z}, texel, 0, 0}, PEAKGATE_CALLER);      \
    }
PEAKGATE_FETCH(tex1Dfetch, 0, 0, (cudaTextureObject_t object, int i), 0, 0, 0, i)
PEAKGATE_FETCH(tex1D, 1, 0, (cudaTextureObject_t object, float x), x, 0, 0, 0)
PEAKGATE_FETCH(tex2D, 2, 0, (cudaTextureObject_t object, float x, float y), x, y, 0, 0)
PEAKGATE_FETCH(tex3D, 3, 0, (cudaTextureObject_t object, float x, float y, float z), x, y, z, 0)
PEAKGATE_FETCH(tex1DLayered, 1, 1, (cudaTextureObject_t object, float x, int layer), x, 0, 0, layer)
PEAKGATE_FETCH(tex2DLayered, 2, 1, (cudaTextureObject_t object, float x, float y, int layer), x, y, 0, layer)
// Mipmaps are not emulated, so every level is the only one.
PEAKGATE_FETCH(tex1DLod, 1, 0, (cudaTextureObject_t object, float x, float), x, 0, 0, 0)
PEAKGATE_FETCH(tex2DLod, 2, 0, (cudaTextureObject_t object, float x, float y, float), x, y, 0, 0)
PEAKGATE_FETCH(tex3DLod, 3, 0, (cudaTextureObject_t object, float x, float y, float z, float), x, y, z, 0)

#define PEAKGATE_SURFACE(name, dimensions, layered, places, y, z)                                                      \
    template <class T>                                                                                                 \
    PEAKGATE_HELPER T name##read(cudaSurfaceObject_t object, PEAKGATE_EXPAND places,                                   \
                                 cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {                                \
        T value;                                                                                                       \
        const PeakgateSurfaceAccess access = {#name "read", object, dimensions, layered, {x, y, z}, sizeof(T),         \
                                              static_cast<PeakgateBoundary>(mode)};                                    \
        peakgate_surface_read(&access, &value, PEAKGATE_CALLER);                                                       \
        return value;                                                                                                  \
    }                                                                                                                  \
    template <class T>                                                                                                 \
    PEAKGATE_HELPER void name##read(T* value, cudaSurfaceObject_t object, PEAKGATE_EXPAND places,                      \
                                    cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {                             \
        const PeakgateSurfaceAccess access = {#name "read", object, dimensions, layered, {x, y, z}, sizeof(T),         \
                                              static_cast<PeakgateBoundary>(mode)};                                    \
        peakgate_surface_read(&access, value, PEAKGATE_CALLER);                                                        \
    }                                                                                                                  \
    template <class T>                                                                                                 \
    PEAKGATE_HELPER void name##write(T value, cudaSurfaceObject_t object, PEAKGATE_EXPAND places,                      \
                                     cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {                            \
        const PeakgateSurfaceAccess access = {#name "write", object, dimensions, layered, {x, y, z}, sizeof(T),        \
                                              static_cast<PeakgateBoundary>(mode)};                                    \
        peakgate_surface_write(&access, &value, PEAKGATE_CALLER);                                                      \
    }
#define PEAKGATE_EXPAND(...) __VA_ARGS__
PEAKGATE_SURFACE(surf1D, 1, 0, (int x), 0, 0)
PEAKGATE_SURFACE(surf2D, 2, 0, (int x, int y), y, 0)
PEAKGATE_SURFACE(surf3D, 3, 0, (int x, int y, int z), y, z)
PEAKGATE_SURFACE(surf2DLayered, 2, 1, (int x, int y, int layer), y, layer)

// Declared, so that other kernels of the file compile.
#define PEAKGATE_NO_TEXTURE(name)                                                                                      \
    template <class T, class... A> inline T name(cudaTextureObject_t, A...) {                                          \
        peakgate_not_emulated("texture memory (" #name ")");                                                           \
        return T();                                                                                                    \
    }
PEAKGATE_NO_TEXTURE(tex2DGrad)
PEAKGATE_NO_TEXTURE(tex2Dgather)
PEAKGATE_NO_TEXTURE(texCubemap)
PEAKGATE_NO_TEXTURE(texCubemapLayered)
