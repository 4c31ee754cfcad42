// Linear memory, read backwards through a texture.
extern "C" __global__ void reverse(float* out, cudaTextureObject_t in, int height, int width) {
    const int n = height * width, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = tex1Dfetch<float>(in, n - 1 - i);
}
