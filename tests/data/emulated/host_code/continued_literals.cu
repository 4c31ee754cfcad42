#define CHECK(call)                  \
    do {                             \
        if (cudaSuccess != (call)) { \
            printf("failed in \
                line %d", __LINE__); \
            /* and ends \
               here */ exit(1);      \
        }                            \
    } while (0)
__global__ void k(float* x) { *x = 1; }
void host() {  // HOST
    CHECK(cudaFree(0));  // HOST
}  // HOST
