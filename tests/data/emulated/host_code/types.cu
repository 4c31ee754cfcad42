struct Timer { cudaEvent_t start; };
static cublasHandle_t handle;  // HOST
void declared(cudaStream_t);  // HOST
struct Kept { int a; };
__constant__ float table[3];
__global__ void k(Kept a) {}
struct Mapping { cudaIpcMemHandle_t handle; };  // HOST
struct Pipeline { cudaStream_t stream; Mapping mappings[2]; };  // HOST
