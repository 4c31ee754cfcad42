#if A
int main() {  // HOST
#else
int other() {  // HOST
#endif
  cudaFree(0);  // HOST
}  // HOST
__global__ void k() {}
inline __device__ float half_of(float x)
#ifdef FAST
{
  return x * 0.5f;
#elif defined(FASTER)
{ return x * 0.5f;
#  if OLD
  ;
#  else
#  endif
#else
{
  return x / 2;
#endif
}
__global__ void l(float* x) { *x = half_of(*x); }
