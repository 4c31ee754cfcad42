template <class T> void sum(T* x) { k<T><<<1, 2>>>(x); }  // HOST
template void sum<int>(int* x);  // HOST
namespace a { template <class T> __device__ T sum(T x) { return x; } }
template <class T> __global__ void k(T* x) { x[0] = a::sum(x[1]); }
template __global__ void k<int>(int*);
