__device__ const char* s = "}"; // }
/* { */ __device__ char c = '{';
int main() { printf("}"); cudaFree(0); /* } */ }  // HOST
namespace a { __global__ void k() {} }
