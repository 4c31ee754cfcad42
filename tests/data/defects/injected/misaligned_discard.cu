// A discard takes whole lines of 128 bytes.
extern "C" __global__ void misaligned_discard(float* out, const float* in, int n) {
    if (threadIdx.x == 0)
        asm volatile("discard.global.L2 [%0], 128;" ::"l"(out + 16) : "memory");  // DEFECT: MISALIGNED
}
