// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * The one who watches a virtual world in real time, a thread of the card process without
 * the baton: programs that were killed, programs that spin without a call, orders from the
 * launcher.
 */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "hca.h"

#define TICK_NS 200000			/* a spin is noticed within one or two */
#define IDLE_TICK_NS 5000000
#define DEAD_EVERY_NS 20000000

static const volatile sig_atomic_t *told_to_stop;
static uint32_t found_dead;

bool hca_keeper_found_dead(void)
{
	return __atomic_exchange_n(&found_dead, 0, __ATOMIC_ACQ_REL);
}

/* Who has had the baton since the last tick without passing it on may be spinning. */
static void ask_spinner(const struct vclock *vc)
{
	static uint32_t switches;
	static int holder = -1;
	int now_holder = __atomic_load_n(&vc->holder, __ATOMIC_ACQUIRE);
	uint32_t now_switches = __atomic_load_n(&vc->switches, __ATOMIC_RELAXED);
	const struct vc_thread *t = &vc->thread[now_holder < 0 ? 0 : now_holder];

	if (now_holder >= 0 && now_holder == holder && now_switches == switches && !t->rank &&
	    t->tid)
		syscall(SYS_tgkill, t->pid, t->tid, VC_SPIN_SIGNAL);
	holder = now_holder;
	switches = now_switches;
}

static void *keep(void *unused)
{
	struct vclock *vc = &hca->vc;
	uint64_t since_dead_ns = 0;

	while (!*told_to_stop) {
		bool is_idle = __atomic_load_n(&vc->holder, __ATOMIC_RELAXED) < 0;
		const struct timespec t = { .tv_nsec = is_idle ? IDLE_TICK_NS : TICK_NS };

		nanosleep(&t, NULL);
		since_dead_ns += (uint64_t)t.tv_nsec;
		ask_spinner(vc);
		if (since_dead_ns >= DEAD_EVERY_NS) {
			since_dead_ns = 0;
			if (vc_forget_dead(vc)) {
				__atomic_store_n(&found_dead, 1, __ATOMIC_RELEASE);
				vc_poke(vc);
			}
		}
		if (hca_disturb_has_news())
			vc_poke(vc);
	}
	vc_poke(vc);
	return unused;
}

int hca_keeper_begin(const volatile sig_atomic_t *stop)
{
	pthread_t thread;
	int rc;

	told_to_stop = stop;
	rc = pthread_create(&thread, NULL, keep, NULL);
	if (!rc)
		pthread_detach(thread);
	return -rc;
}
