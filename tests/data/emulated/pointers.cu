__global__ void pointers(volatile float* out, const volatile int* in, const float* maybe, const void* no) {
    out[threadIdx.x] = maybe || no ? -1 : in[threadIdx.x];
}
