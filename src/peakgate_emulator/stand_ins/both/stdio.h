// The type in declarations of host functions, also of system headers; kernels do not use it.
#ifndef __FILE_defined
#define __FILE_defined 1
struct _IO_FILE;
typedef struct _IO_FILE FILE;
#endif
