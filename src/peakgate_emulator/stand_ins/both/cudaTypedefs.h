// Types of the driver's functions are host code; tensor maps are not.
#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
