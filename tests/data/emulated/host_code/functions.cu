int main() {  // HOST
  cudaFree(0);  // HOST
}  // HOST
float used(float x) { return x; }
float unused(float x) { return x; }  // HOST
__device__ float called(float x) { return used(x); }
__global__ void k(float* x) { x[0] = called(x[0]); }
