// Waits for a flag that no other thread can set, since none runs meanwhile.
extern "C" __global__ void endless_loop(float* out, const float* in, int n) {
    volatile float* flag = out;
    while (*flag == 0.0f) {}  // DEFECT: ENDLESS_LOOP
}
