// Finds a thread that computes without end and without ever touching memory, which the access budget cannot see: a timer
// on this host thread's own processor time looks, now and then, whether anything has happened since.
#include "runtime.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace peakgate {
namespace {

int timer;
bool armed;
int64_t budget_last_seen;

int watchdog_signal() { return SIGRTMAX - 2; }

void look(int signal, siginfo_t*, void* context) {
    if (!state.running) return;
    if (state.budget_left != budget_last_seen) {
        budget_last_seen = state.budget_left;
        return;
    }
    report(ENDLESS_LOOP, interrupted_at(context), 0, "%d ms of computing without a memory access, a wait or an end",
           state.launch.stall_ms);
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, signal);
    sigprocmask(SIG_UNBLOCK, &own, nullptr); // this handler is left by a switch, not by a return
    abandon_launch();
}

} // namespace

bool start_watchdog() {
    // It stays installed after the launch: a signal may still be on its way when the timer is gone.
    struct sigaction action = {};
    action.sa_sigaction = look;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    if (sigaction(watchdog_signal(), &action, nullptr)) return false;
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = watchdog_signal();
    event.sigev_notify_thread_id = static_cast<int>(syscall(SYS_gettid));
    // System calls, because before glibc 2.34 their wrappers are in a library of their own.
    if (syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &event, &timer)) return false;
    armed = true;
    budget_last_seen = -1;
    struct itimerspec period = {};
    period.it_interval.tv_sec = state.launch.stall_ms / 1000;
    period.it_interval.tv_nsec = state.launch.stall_ms % 1000 * 1000000L;
    period.it_value = period.it_interval;
    return syscall(SYS_timer_settime, timer, 0, &period, nullptr) == 0;
}

void stop_watchdog() {
    if (armed) syscall(SYS_timer_delete, timer);
    armed = false;
}

} // namespace peakgate
