// Types of POSIX in host functions; kernels do not use them. The macros are those of glibc's headers.
#ifndef __ssize_t_defined
#define __ssize_t_defined 1
typedef long ssize_t;
#endif
#ifndef __off_t_defined
#define __off_t_defined 1
typedef long off_t;
#endif
#ifndef __pid_t_defined
#define __pid_t_defined 1
typedef int pid_t;
#endif
#ifndef __uid_t_defined
#define __uid_t_defined 1
typedef unsigned uid_t;
#endif
#ifndef __gid_t_defined
#define __gid_t_defined 1
typedef unsigned gid_t;
#endif
#ifndef __mode_t_defined
#define __mode_t_defined 1
typedef unsigned mode_t;
#endif
#ifndef __time_t_defined
#define __time_t_defined 1
typedef long time_t;
#endif
