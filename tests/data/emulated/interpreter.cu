extern "C" __global__ void interpreter(int* words, const int* program, int steps) {
    __shared__ int shared[3];
    const int t = threadIdx.x;
    if (t < 3) shared[t] = 0;
    __syncthreads();
    int kept = 0;
    for (int k = 0; k < steps; ++k) {
        const int step = program[t * steps + k];
        if (step == 7) continue;
        if (step == 6) __syncthreads();
        else if (step < 3) kept += IN_SHARED ? shared[step] : words[step];
        else if (IN_SHARED) shared[step - 3] = kept + k + t;
        else words[step - 3] = kept + k + t;
    }
}
