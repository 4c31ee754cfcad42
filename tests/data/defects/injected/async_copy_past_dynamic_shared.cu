// The launch gives 256 bytes of dynamic shared memory; the last thread copies to the next four, and nobody waits.
extern "C" __global__ void async_copy_past_dynamic_shared(float* out, const float* in, int n) {
    extern __shared__ float tile[];
    __pipeline_memcpy_async(&tile[threadIdx.x + 1], &in[threadIdx.x], sizeof(float));  // DEFECT: OUT_OF_BOUNDS
    out[blockIdx.x * blockDim.x + threadIdx.x] = 0.0f;
}
