// Names in the declarations of host functions beside kernels.
typedef unsigned long pthread_t, pthread_mutex_t, pthread_cond_t;
typedef volatile int pthread_spinlock_t;
