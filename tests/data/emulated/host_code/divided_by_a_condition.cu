#if A
int main() {
#else
int other() {
#endif
  cudaFree(0);
}
__global__ void k() {}
