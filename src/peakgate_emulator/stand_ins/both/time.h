// Names in host functions beside kernels, which do nothing here.
#ifndef __clock_t_defined
#define __clock_t_defined 1
typedef long clock_t;
#endif
#ifndef __time_t_defined
#define __time_t_defined 1
typedef long time_t;
#endif
struct tm { int tm_sec, tm_min, tm_hour, tm_mday, tm_mon, tm_year, tm_wday, tm_yday, tm_isdst; };
__device__ inline time_t time(time_t*) { return 0; }
__device__ inline double difftime(time_t, time_t) { return 0; }
__device__ inline tm* localtime(const time_t*) { return nullptr; }
__device__ inline tm* gmtime(const time_t*) { return nullptr; }
__device__ inline char* ctime(const time_t*) { return nullptr; }
__device__ inline decltype(sizeof 0) strftime(char*, decltype(sizeof 0), const char*, const tm*) { return 0; }
