#define N 3
int main() {  // HOST
#ifdef A
  cudaFree(0);  // HOST
#endif
}  // HOST
__global__ void k() {}
