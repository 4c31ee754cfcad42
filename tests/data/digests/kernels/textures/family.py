"""Textures and surfaces: every address mode, filter and kind of texel.

The reference is the guide's, with the rounding of an H200: products of weights have 8 bits, ties of a result go away
from zero, filtered bytes have 16 bits. Places are multiples of 1/1024, exact in float32.
"""

import itertools
import math

import numpy as np

from peakgate.family import In, InOut, Out, Surface, Texture, Value, family, kernel
from peakgate.measure.data import random_bits

SIZES = {1: (64,), 2: (32, 64), 3: (8, 16, 32)}
"""Of a texture, by its dimensions; powers of two, so that a normalized coordinate is exact."""


def taps(how, size, at):
    """Along a dimension: the first of the texels that count, and the weight of the next one in 1/256."""
    at = np.float32(at * np.float32(size)) if how.normalized_coords else at
    if how.linear:
        fixed = np.floor((at.astype(np.float64) - 0.5) * 256 + 0.5).astype(int)
        first = fixed >> 8
        alone = (how.address == "clamp") & ((first < 0) | (first >= size - 1))
        return first, np.where(alone, 0, fixed & 255)
    return np.floor(at).astype(int), np.zeros(at.shape, int)


def share_of(corner, weights):
    """The share in 1/256 of the texel that is the second along the dimensions ``corner`` names, x last."""
    *further, x = ((0, 0), (0, 0), *zip(corner, weights, strict=True))[-3:]
    both = (further[0][1] * further[1][1] + 128) >> 8
    (z, in_z), (y, in_y) = further
    pair = {(0, 0): 256 - in_z - in_y + both, (0, 1): in_y - both, (1, 0): in_z - both, (1, 1): both}[z, y]
    second = (pair * x[1] + 127 + y) >> 8
    return second if x[0] else pair - second


def placed(how, size, index):
    """What an address mode makes of an index."""
    match how.address:
        case "wrap":
            return index % size
        case "mirror":
            within = index % (2 * size)
            return np.minimum(within, 2 * size - 1 - within)
        case "clamp":
            return np.clip(index, 0, size - 1)
    return np.where((index >= 0) & (index < size), index, -1)


def sampled(how, texels, places):
    """What a texture gives at the places along each of its dimensions, the slowest first."""
    along = [taps(how, size, at) for size, at in zip(texels.shape, places, strict=True)]
    first = np.meshgrid(*(index for index, _ in along), indexing="ij")
    weights = np.meshgrid(*(weight for _, weight in along), indexing="ij")
    total = np.zeros(first[0].shape)
    for corner in itertools.product((0, 1), repeat=len(along)):
        moved = zip(texels.shape, first, corner, strict=True)
        indices = tuple(placed(how, size, index + second) for size, index, second in moved)
        values = np.where(np.any([index < 0 for index in indices], axis=0), 0, texels.astype(np.float64)[indices])
        total += share_of(corner, weights) * values / 256
    if how.normalized_read:
        most = np.iinfo(texels.dtype).max
        filtered = {255: 65535, 65535: 65535}.get(most, 32767) if how.linear else most
        return np.maximum(np.floor(total * (filtered / most) + 0.5) / filtered, -1).astype(np.float32)
    bits = 11 if texels.dtype == np.float16 and how.linear else 24
    _, exponent = np.frexp(total)
    scaled = np.ldexp(total, bits - exponent)
    return np.ldexp(np.copysign(np.floor(np.abs(scaled) + 0.5), total), exponent - bits).astype(np.float32)


def on_host(array):
    return np.asarray(array.get() if hasattr(array, "get") else array)


def uniform(low, high, bits=24):
    """Multiples of 2**-``bits`` of a range, for which the results of an H200 are recorded."""

    def data(xp, shape):
        drawn = random_bits(np, math.prod(shape), 1) >> np.uint32(32 - bits)
        return xp.asarray((low + drawn * 2.0**-bits * (high - low)).reshape(shape))

    return data


BELOW_256 = uniform(0, 256)


def whole_range(xp, shape):
    """Bits of integers, for which the results of an H200 are recorded."""
    return xp.asarray(random_bits(np, math.prod(shape), 1).astype(np.int16).reshape(shape))


def case(name, entry, how, along, *, dtype="float32", data=BELOW_256):
    """Threads that read a texture of as many dimensions as the output has, ``along`` places: the first, the step."""
    start, step = along
    dimensions = {"line": 1, "plane": 2, "volume": 3}[entry]
    shape = SIZES[dimensions]

    def arguments(*sizes):
        texels = In(*shape, dtype=dtype, data=data, texture=how)
        return [Out(*sizes), texels, *map(Value, reversed(sizes)), Value(start), Value(step)]

    def reference(xp, texels, sizes):
        places = [np.float32(start) + np.arange(size, dtype=np.float32) * np.float32(step) for size in sizes]
        return xp.asarray(sampled(how, on_host(texels), places))

    return described(name, entry, arguments, reference, [(200,), (40, 100), (12, 20, 40)][dimensions - 1])


def described(name, entry, arguments, reference, sizes):
    grid = {1: lambda n: -(-n // 64)}.get(len(sizes), lambda *n: (-(-n[-1] // 32), -(-n[-2] // 4), *n[:-2]))
    return kernel(
        "textures.cu",
        name=name,
        entry=entry,
        arguments=arguments,
        grid=grid,
        block=64 if len(sizes) == 1 else (32, 4),
        bytes=lambda *_: 1,
        reference=lambda xp, *inputs: reference(xp, *inputs, sizes),
        sizes=[sizes if len(sizes) > 1 else sizes[0]],
        edges=[sizes if len(sizes) > 1 else sizes[0]],
        tolerance=0.0,
    )


def of_layers(how):
    def reference(xp, texels, sizes):
        places = [np.float32(-1.25) + np.arange(size, dtype=np.float32) * np.float32(0.875) for size in sizes[1:]]
        each = [sampled(how, layer, places) for layer in on_host(texels)]
        return xp.asarray(np.stack([each[-1], *each, each[-1]]))  # a layer that is not there is the last

    def arguments(layers, height, width):
        texels = In(layers - 2, 32, 64, data=BELOW_256, texture=how)
        return [Out(layers, height, width), texels, Value(width), Value(height), Value(-1.25), Value(0.875)]

    return described("layers", "layers", arguments, reference, (5, 40, 80))


def of_quads(how):
    def reference(xp, texels, sizes):
        rows, columns = (np.clip(np.floor(-2 + np.arange(size) * 0.75).astype(int), 0, last) for size, last in sizes)
        return xp.asarray(on_host(texels)[np.ix_(rows, columns)].astype(np.int32))

    def arguments(height, width):
        texels = In(32, 64, 4, dtype="int8", texture=how)
        return [Out(height, width, 4, dtype="int32"), texels, Value(width), Value(height), Value(-2.0), Value(0.75)]

    return described(
        "quads", "quads", arguments, lambda xp, texels, _: reference(xp, texels, ((50, 31), (100, 63))), (50, 100)
    )


def of_surfaces():
    def reference(xp, image, _):
        texels = on_host(image)
        right = np.pad(texels, ((0, 0), (0, 1)), mode="edge")[:, 1:]
        below = np.pad(texels, ((0, 1), (0, 0)))[1:]
        return tuple(xp.asarray(array) for array in (right - below, texels, 2 * right))

    def arguments(height, width):
        image = InOut(height, width, surface=Surface(), data=uniform(-1, 1))
        copy = Out(height, width, surface=Surface())
        return [Out(height, width), image, copy, Value(width), Value(height)]

    return described("surfaces", "surfaces", arguments, reference, (33, 70))


def of_linear_memory():
    how = Texture(channels=2, linear_memory=True)
    return described(
        "fetch",
        "fetch",
        lambda n: [Out(n, 2), In(n, 2, texture=how, data=uniform(-1, 1)), Value(n)],
        lambda xp, texels, _: xp.asarray(on_host(texels)[::-1, ::-1].copy()),
        (1000,),
    )


def unit(address, **how):
    """Normalized coordinates, from below 0 to above 1."""
    return Texture(address=address, normalized_coords=True, **how)


BYTES = {"dtype": "uint8", "data": None}
FAMILY = family(
    case("line_points", "line", Texture(), (-3.0, 0.3984375)),
    case("line_fractions", "line", Texture(linear=True), (20.0, 1 / 1024)),
    case("line_linear_wrap", "line", unit("wrap", linear=True), (-2.0, 33 / 1024)),
    case("plane_points", "plane", Texture(), (-4.0, 0.8125)),
    case("plane_points_border", "plane", Texture(address="border"), (-4.0, 0.8125)),
    case("plane_points_wrap", "plane", unit("wrap"), (-1.5, 0.0546875)),
    case("plane_points_mirror", "plane", unit("mirror"), (-1.5, 0.0546875)),
    case("plane_linear", "plane", Texture(linear=True), (-4.0, 0.8125 + 1 / 512)),
    case("plane_linear_border", "plane", Texture(address="border", linear=True), (-4.0, 0.8125 + 1 / 256)),
    case("plane_linear_wrap", "plane", unit("wrap", linear=True), (-1.5, 0.0546875)),
    case("plane_linear_mirror", "plane", unit("mirror", linear=True), (-1.5, 0.0546875)),
    case("plane_halves", "plane", Texture(linear=True), (-4.0, 0.8125), dtype="float16", data=uniform(0, 256, 11)),
    case("plane_bytes", "plane", Texture(normalized_read=True), (-4.0, 0.8125), **BYTES),
    case("plane_shorts", "plane", Texture(normalized_read=True), (-4.0, 0.8125), dtype="int16", data=whole_range),
    case("plane_bytes_linear", "plane", Texture(normalized_read=True, linear=True), (-4.0, 0.8125), **BYTES),
    case("volume_points", "volume", Texture(), (-2.0, 0.8125)),
    case("volume_linear", "volume", Texture(linear=True), (-2.0, 0.8125)),
    of_layers(Texture(layered=True, linear=True)),
    of_quads(Texture(channels=4)),
    of_linear_memory(),
    of_surfaces(),
)
