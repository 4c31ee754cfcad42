// From one surface to another, left and right exchanged.
extern "C" __global__ void mirror(cudaSurfaceObject_t out, cudaSurfaceObject_t image, int height, int width) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) surf2Dwrite(surf2Dread<float>(image, 4 * (width - 1 - x), y), out, 4 * x, y);
}
