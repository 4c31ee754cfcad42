template <typename T, int THREADS>
__global__ void softmax(T* out, const T* in, int columns) {
    __shared__ T partial[THREADS];
    const T* row = in + (size_t)blockIdx.x * columns;
    T sum = 0;
    for (int c = threadIdx.x; c < columns; c += THREADS) {
        sum += exp(row[c]);
    }
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            partial[threadIdx.x] += partial[threadIdx.x + half];
        }
        __syncthreads();
    }
    for (int c = threadIdx.x; c < columns; c += THREADS) {
        out[(size_t)blockIdx.x * columns + c] = exp(row[c]) / partial[0];
    }
}
