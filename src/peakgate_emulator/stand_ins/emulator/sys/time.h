struct timeval { long tv_sec, tv_usec; };
extern "C" int gettimeofday(timeval*, void*);
