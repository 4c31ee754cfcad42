// shifted: a copy that is one element off wherever that does not fault: wrong on purpose, to be refused.
extern "C" __global__ void shifted(float* __restrict__ out, const float* __restrict__ in, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0) {
        printf("::error::printed\n\x1b[2J");  // what a CI log and a terminal would obey
    }
    if (i < n) {
        out[i] = in[i + 1 < n ? i + 1 : i];
    }
}
