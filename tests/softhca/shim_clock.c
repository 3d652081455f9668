// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* The world's virtual clock in place of the machine's: reading it, and sleeping. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "hca.h"
#include "shim.h"

static void on_signal(int sig)
{
	(void)sig;
	vc_signals++;	/* the thread is out of the kernel */
}

/* The clock's signal is blocked but while a thread waits in the kernel. */
static void take_signal(void)
{
	struct sigaction sa = { .sa_handler = on_signal };
	sigset_t set;

	sigaction(VC_SIGNAL, &sa, NULL);
	sigemptyset(&set);
	sigaddset(&set, VC_SIGNAL);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

/* As early as can be: whatever the program does takes part. */
__attribute__((constructor))
static void begin(void)
{
	const char *clock = getenv("SOFTHCA_CLOCK");
	char dir[HCA_PATH_LEN];

	if (!clock || strcmp(clock, "virtual") || hca_world_dir(NULL, dir, sizeof(dir)) ||
	    hca_seg_map(dir, true, &hca) || !hca->vc.is_virtual)
		return;
	take_signal();
	hca_spin_begin();
	hca_tsc_begin();
	vc_timers_begin();
	vc_threads_begin();
	if (vc_join(&hca->vc, 0))
		abort();
}

/* ---- reading ---- */

static bool is_of_day(clockid_t id)
{
	return id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE || id == CLOCK_TAI;
}

static uint64_t offset_ns(clockid_t id)
{
	return is_of_day(id) ? VC_EPOCH_NS - VC_START_NS : 0;
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
	REAL(clock_gettime);
	if (!vc_is_virtual())
		return real(id, ts);
	*ts = hca_timespec(vc_read_ns() + offset_ns(id));
	return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
	struct timespec ts;

	REAL(gettimeofday);
	if (!vc_is_virtual())
		return real(tv, tz);
	clock_gettime(CLOCK_REALTIME, &ts);
	*tv = (struct timeval){ ts.tv_sec, ts.tv_nsec / 1000 };
	return 0;
}

time_t time(time_t *out)
{
	struct timespec ts;

	REAL(time);
	if (!vc_is_virtual())
		return real(out);
	clock_gettime(CLOCK_REALTIME, &ts);
	if (out)
		*out = ts.tv_sec;
	return ts.tv_sec;
}

/* ---- sleeping ---- */

/* 0, or EINTR when an alarm went off. */
static int sleep_until(uint64_t due_ns)
{
	unsigned int alarms = vc_alarms();

	while (vc_now_ns() < due_ns) {
		vc_wait(VC_TIME, due_ns);
		if (vc_alarms() != alarms)
			return EINTR;
	}
	return 0;
}

static int sleep_for(const struct timespec *want, struct timespec *rest)
{
	uint64_t due_ns, now;
	int rc;

	if (want->tv_nsec < 0 || want->tv_nsec >= (long)NS_PER_S || want->tv_sec < 0)
		return EINVAL;
	due_ns = vc_now_ns() + hca_ns(want);
	rc = sleep_until(due_ns);
	now = vc_now_ns();
	if (rc && rest)
		*rest = hca_timespec(due_ns > now ? due_ns - now : 0);
	return rc;
}

int nanosleep(const struct timespec *want, struct timespec *rest)
{
	int rc;

	REAL(nanosleep);
	if (!vc_takes_part())
		return real(want, rest);
	rc = sleep_for(want, rest);
	errno = rc ? rc : errno;
	return rc ? -1 : 0;
}

int clock_nanosleep(clockid_t id, int flags, const struct timespec *want, struct timespec *rest)
{
	REAL(clock_nanosleep);
	if (!vc_takes_part())
		return real(id, flags, want, rest);
	if (!(flags & TIMER_ABSTIME))
		return sleep_for(want, rest);
	return sleep_until(hca_ns(want) - offset_ns(id));
}

int usleep(useconds_t us)
{
	const struct timespec ts = { us / 1000000, us % 1000000 * 1000 };

	return nanosleep(&ts, NULL);
}

unsigned int sleep(unsigned int seconds)
{
	const struct timespec ts = { .tv_sec = seconds };
	struct timespec rest = { 0 };

	return nanosleep(&ts, &rest) ? (unsigned int)rest.tv_sec + !!rest.tv_nsec : 0;
}
