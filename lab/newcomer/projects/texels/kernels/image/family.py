from peakgate.family import In, InOut, Out, Surface, Texture, Value, family, kernel

SIZES = [(8192, 8192)]


def tiles(height, width):
    return -(-width // 32), -(-height // 8)


def copied(height, width):
    """One float read and one written per pixel."""
    return 8 * height * width


def mean_of_four(xp, image):
    rows = xp.concatenate([image, image[-1:]])
    whole = xp.concatenate([rows, rows[:, -1:]], axis=1)
    return (whole[:-1, :-1] + whole[1:, :-1] + whole[:-1, 1:] + whole[1:, 1:]) / 4


FAMILY = family(
    kernel(
        "blend.cu",
        arguments=lambda h, w: [Out(h, w), In(h, w, texture=Texture(linear=True)), Value(h), Value(w)],
        grid=tiles,
        block=(32, 8),
        bytes=copied,
        reference=mean_of_four,
        sizes=SIZES,
    ),
    kernel(
        "mirror.cu",
        arguments=lambda h, w: [Out(h, w, surface=Surface()), InOut(h, w, surface=Surface()), Value(h), Value(w)],
        grid=tiles,
        block=(32, 8),
        bytes=copied,
        reference=lambda xp, image: (image[:, ::-1], image),
        sizes=SIZES,
    ),
    kernel(
        "plain.cu",
        arguments=lambda h, w: [Out(h, w), In(h, w), Value(h), Value(w)],
        grid=tiles,
        block=(32, 8),
        bytes=copied,
        reference=lambda xp, image: image[:, ::-1],
        sizes=SIZES,
    ),
    kernel(
        "negate.cu",
        arguments=lambda h, w: [InOut(h, w, surface=Surface()), Value(h), Value(w)],
        grid=tiles,
        block=(32, 8),
        bytes=copied,
        reference=lambda xp, image: -image,
        sizes=SIZES,
    ),
    kernel(
        "reverse.cu",
        arguments=lambda h, w: [Out(h * w), In(h * w, texture=Texture(linear_memory=True)), Value(h), Value(w)],
        grid=lambda h, w: -(-h * w // 256),
        block=256,
        bytes=copied,
        reference=lambda xp, image: image[::-1],
        sizes=SIZES,
    ),
)
