// Ends a launch at its time limit: a timer counts this host thread's processor time, which depends only on the amount
// of computation, not on the machine's load.
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

volatile bool out_of_time;

namespace {

// Another timer counts wall time, to detect a sleeping thread: its period is SLEEP_FACTOR times the limit, and the
// thread sleeps if it ran for less than 1 / ASLEEP of a period, which is less than on a busy machine.
constexpr int SLEEP_FACTOR = 6, ASLEEP = 1000;
constexpr clockid_t CLOCKS[] = {CLOCK_THREAD_CPUTIME_ID, CLOCK_MONOTONIC};
// If neither the kernel's code nor a hook was interrupted in this many signals after the limit, the launch is in a
// function that the kernel called.
constexpr int LOOKS = 4;
constexpr long LOOK_EVERY_NS = 50'000'000;
int timers[2];
int armed, looks;
int64_t ran_before_ns;
bool slept;

int64_t ran_ns() {
    struct timespec ran;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
    return ran.tv_sec * 1'000'000'000L + ran.tv_nsec;
}

int watchdog_signal() { return SIGRTMAX - 2; }

void look(int signal, siginfo_t* info, void* context) {
    if (!state.running || info->si_code != SI_TIMER) return;
    const uintptr_t at = interrupted_at(context);
    if (info->si_value.sival_int) {
        const int64_t before_ns = ran_before_ns;
        ran_before_ns = ran_ns();
        slept = ran_before_ns - before_ns < SLEEP_FACTOR * state.launch.limit_ms * (1'000'000L / ASLEEP);
        if (!slept) return;
    } else if (!at && ++looks < LOOKS) { // the runtime may be in an inconsistent state
        out_of_time = true;
        state.budget_left = 0;
        return;
    }
    report_out_of_time(at ? at : called_in_kernel(context));
    abandon_launch_from_handler(signal);
}

} // namespace

void report_out_of_time(uintptr_t at) {
    const double limit_s = static_cast<double>(state.launch.limit_ms) / 1000;
    if (slept)
        report(NOT_ENDED, at, 0, "the launch slept for %g s", SLEEP_FACTOR * limit_s);
    else
        report(NOT_ENDED, at, 0, "the launch had not ended after %g s of processor time", limit_s);
}

bool start_watchdog() {
    out_of_time = slept = false;
    looks = 0;
    ran_before_ns = ran_ns();
    // It stays installed after the launch, since a signal may arrive after the timer is deleted.
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
        // System calls, since before glibc 2.34 their wrappers are in a separate library.
        if (syscall(SYS_timer_create, CLOCKS[armed], &event, &timers[armed])) return false;
        const int64_t limit_ms = armed ? SLEEP_FACTOR * state.launch.limit_ms : state.launch.limit_ms;
        struct itimerspec times = {};
        times.it_value.tv_sec = limit_ms / 1000;
        times.it_value.tv_nsec = limit_ms % 1000 * 1'000'000L;
        times.it_interval.tv_nsec = LOOK_EVERY_NS;
        if (armed) times.it_interval = times.it_value;
        if (syscall(SYS_timer_settime, timers[armed], 0, &times, nullptr)) return false;
    }
    return true;
}

void stop_watchdog() {
    while (armed > 0) syscall(SYS_timer_delete, timers[--armed]);
}

} // namespace peakgate
