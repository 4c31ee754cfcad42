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

// One timer counts this thread's processor time, the other the time of day, for a thread that sleeps: that one allows
// several times as much, because a busy machine may not let a thread run.
constexpr int SLEEP_FACTOR = 6;
constexpr clockid_t CLOCKS[] = {CLOCK_THREAD_CPUTIME_ID, CLOCK_MONOTONIC};
int timers[2];
int armed;
int64_t budget_last_seen[2];

int watchdog_signal() { return SIGRTMAX - 2; }

void look(int signal, siginfo_t* info, void* context) {
    const int which = info->si_value.sival_int;
    if (!state.running || which < 0 || which > 1) return;
    if (state.budget_left != budget_last_seen[which]) {
        budget_last_seen[which] = state.budget_left;
        return;
    }
    report(ENDLESS_LOOP, interrupted_at(context), 0, "%d ms of %s without a memory access, a wait or an end",
           which ? SLEEP_FACTOR * state.launch.stall_ms : state.launch.stall_ms, which ? "sleep" : "computing");
    abandon_launch_from_handler(signal);
}

} // namespace

bool start_watchdog() {
    // It stays installed after the launch: a signal may still be on its way when the timer is gone.
    struct sigaction action = {};
    action.sa_sigaction = look;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    if (sigaction(watchdog_signal(), &action, nullptr)) return false;
    for (armed = 0; armed < 2; ++armed) {
        struct sigevent event;
        memset(&event, 0, sizeof event);
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = watchdog_signal();
        event.sigev_value.sival_int = armed;
        event.sigev_notify_thread_id = static_cast<int>(syscall(SYS_gettid));
        // System calls, because before glibc 2.34 their wrappers are in a library of their own.
        if (syscall(SYS_timer_create, CLOCKS[armed], &event, &timers[armed])) return false;
        budget_last_seen[armed] = -1;
        const long period_ms = armed ? SLEEP_FACTOR * static_cast<long>(state.launch.stall_ms) : state.launch.stall_ms;
        struct itimerspec period = {};
        period.it_interval.tv_sec = period_ms / 1000;
        period.it_interval.tv_nsec = period_ms % 1000 * 1000000L;
        period.it_value = period.it_interval;
        if (syscall(SYS_timer_settime, timers[armed], 0, &period, nullptr)) return false;
    }
    return true;
}

void stop_watchdog() {
    while (armed > 0) syscall(SYS_timer_delete, timers[--armed]);
}

} // namespace peakgate
