extern "C" __global__ void wild_call(float* out, const float* in, int n) {
    const size_t address = in[1] == 1.0f ? 4096 : 0;
    reinterpret_cast<void (*)(float*)>(address)(out); // DEFECT: FAULT
    out[threadIdx.x] = 1.0f;
}
