// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * The card process: serves doorbells and control commands, runs the engine when something
 * is due, sleeps in between, and cleans up after applications that have gone.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wqe.h"

#define RT_PRIORITY 20
#define SPIN_NS 10000ull		/* a sleep may end that much late: the rest is spun, */
#define SPIN_PERCENT 30			/* for this share of the time, */
#define SPIN_BURST_NS 500000ull		/* saved up to here; */
#define QUANTUM_NS 15000ull		/* beyond it events are served in batches so far apart */
#define TICK_NS (2 * HCA_NS_PER_MS)	/* failed queue pairs are looked after */
#define REAP_NS (20 * HCA_NS_PER_MS)	/* dead applications are noticed */
#define EARLY_COPY_NS 60000ull		/* idle for longer: move part of a long message */
#define STILLBORN_REAPS 50		/* a slot claimed but never made ready */

static volatile sig_atomic_t stop;
static int pidfd[HCA_MAX_PROCS];	/* -1: slot not served */
static uint8_t stillborn[HCA_MAX_PROCS];
static uint32_t served;			/* slots with a pidfd */
static uint64_t spin_ns;		/* how long it may still spin */

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
	/* A changed word keeps the futex from sleeping if the signal came just before. */
	__atomic_fetch_add(&hca->bell, 1, __ATOMIC_RELEASE);
}

static void catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* Best effort: without the privilege the world only becomes less exact. */
static void raise_priority(void)
{
	struct sched_param p = { .sched_priority = RT_PRIORITY };

	if (sched_setscheduler(0, SCHED_FIFO, &p))
		fprintf(stderr, "softhca: no real-time priority (%s): times will be less exact\n",
			strerror(errno));
	prctl(PR_SET_TIMERSLACK, 1);
}

static int init_segment(const char *world_dir, const struct hca_config *cfg)
{
	int rc = hca_seg_create(world_dir, &hca);

	if (rc)
		return rc;
	hca_self = getpid();
	hca_is_card = true;
	hca->card_pid = hca_self;
	hca->is_inline = cfg->is_inline != 0;
	hca->has_model = cfg->has_model != 0;
	hca->is_eth = cfg->is_eth != 0;
	hca->device = (uint32_t)cfg->device;
	hca->hosts = cfg->hosts;
	hca->slowdown = cfg->slowdown ? cfg->slowdown : 1;
	hca->link_gbps = cfg->nic.link_gbps;
	hca->seed = cfg->seed;
	snprintf(hca->model, sizeof(hca->model), "%s", cfg->has_model ? cfg->nic.name : "off");
	for (uint32_t i = 0; i < cfg->hosts; i++)
		memcpy(hca->host[i].name, cfg->host[i], HCA_NAME_LEN);
	hca->timers_ns = hca->disturb_ns = HCA_NEVER;
	if (cfg->is_virtual) {
		vc_init(&hca->vc, cfg->is_held);
		rc = vc_join(&hca->vc, 1);
		if (rc)
			return rc;
	}
	hca->t0_ns = hca_now_ns();
	for (int i = 0; i < HCA_MAX_PROCS; i++)
		pidfd[i] = -1;
	return nic_init(&hca->nic, &cfg->nic, cfg->hosts, cfg->seed);
}

static void adopt(uint32_t proc)
{
	struct hca_proc *p = &hca->proc[proc];

	if (pidfd[proc] >= 0 || !__atomic_load_n(&p->ready, __ATOMIC_ACQUIRE))
		return;
	pidfd[proc] = (int)syscall(SYS_pidfd_open, p->pid, 0);
	if (pidfd[proc] < 0)
		hca_proc_free(proc);	/* gone already */
	else
		served++;
}

static void serve_ctl(struct hca_proc *p, uint32_t proc)
{
	struct hca_ctl c;

	if (__atomic_load_n(&p->ctl_state, __ATOMIC_ACQUIRE) != HCA_CTL_POSTED)
		return;
	c = p->ctl;
	hca_ctl_serve(proc, &c);
	p->ctl = c;
	/* Release: the answer is there before the application sees DONE. */
	__atomic_store_n(&p->ctl_state, HCA_CTL_DONE, __ATOMIC_RELEASE);
	hca_futex_wake(&p->ctl_state);
	vc_wake(p->pid, VC_CTL);
}

static void serve(uint32_t proc)
{
	struct hca_proc *p = &hca->proc[proc];
	struct hca_bell b;

	adopt(proc);
	if (pidfd[proc] < 0)
		return;
	while (hca_bell_pop(p, &b))
		hca_engine_bell(proc, &b);
	serve_ctl(p, proc);
}

static void serve_all(void)
{
	for (uint32_t w = 0; w < HCA_PROC_WORDS; w++) {
		uint64_t map = 0;

		if (__atomic_load_n(&hca->bell_map[w], __ATOMIC_RELAXED))
			map = __atomic_exchange_n(&hca->bell_map[w], 0, __ATOMIC_SEQ_CST);
		for (; map; map &= map - 1)
			serve(w * 64 + (uint32_t)__builtin_ctzll(map));
	}
}

static bool has_work(void)
{
	for (uint32_t w = 0; w < HCA_PROC_WORDS; w++)
		if (__atomic_load_n(&hca->bell_map[w], __ATOMIC_SEQ_CST))
			return true;
	return hca_disturb_has_news();
}

static bool is_dead(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* Killed between claiming a slot and making it ready: nobody else would ever free it. */
static void reap_stillborn(uint32_t proc)
{
	if (!__atomic_load_n(&hca->proc[proc].pid, __ATOMIC_ACQUIRE) ||
	    ++stillborn[proc] < STILLBORN_REAPS)
		return;
	stillborn[proc] = 0;
	if (kill(hca->proc[proc].pid, 0) && errno == ESRCH)
		hca_proc_free(proc);
}

static void reap(void)
{
	for (uint32_t i = 0; i < HCA_MAX_PROCS; i++) {
		if (pidfd[i] < 0) {
			reap_stillborn(i);
			continue;
		}
		if (!is_dead(pidfd[i]))
			continue;
		close(pidfd[i]);
		pidfd[i] = -1;
		served--;
		hca_proc_free(i);
	}
}

struct due { uint64_t event_ns, tick_ns, reap_ns, fault_ns; };

static void run_due(struct due *d, uint64_t now)
{
	if (served && (vc_is_virtual() ? hca_keeper_found_dead() : now >= d->reap_ns)) {
		reap();
		d->reap_ns = now + REAP_NS;
	}
	if (hca->err_qps && now >= d->tick_ns) {
		hca_engine_tick();
		d->tick_ns = now + TICK_NS;
	}
	d->fault_ns = hca_disturb_step(now);
}

static uint64_t next_due(const struct due *d)
{
	uint64_t t = d->event_ns < d->fault_ns ? d->event_ns : d->fault_ns;

	if (served && d->reap_ns < t && !vc_is_virtual())
		t = d->reap_ns;
	if (hca->err_qps && d->tick_ns < t)
		t = d->tick_ns;
	return t;
}

/* A real-time process that spins must leave the core to others for most of the time. */
static uint64_t spin_credit(uint64_t now)
{
	static uint64_t then_ns;

	spin_ns += (now - then_ns) * SPIN_PERCENT / 100;
	if (spin_ns > SPIN_BURST_NS)
		spin_ns = SPIN_BURST_NS;
	then_ns = now;
	return spin_ns;
}

static void spin_until(uint64_t due_ns, uint64_t now)
{
	uint64_t begin = now;

	while (now < due_ns && !has_work() && !stop)
		now = hca_now_ns();
	spin_ns -= now - begin < spin_ns ? now - begin : spin_ns;
}

static void sleep_until(uint64_t due_ns, uint64_t now)
{
	uint32_t seen = __atomic_load_n(&hca->bell, __ATOMIC_ACQUIRE);

	if (vc_is_virtual()) {
		vc_wait(VC_CARD, due_ns);
		return;
	}
	if (due_ns <= now)
		return;
	if (due_ns <= now + SPIN_NS) {
		if (spin_credit(now) >= SPIN_NS) {
			spin_until(due_ns, now);
			return;
		}
		due_ns = now + QUANTUM_NS;
	} else if (due_ns != HCA_NEVER && spin_credit(now) >= SPIN_NS) {
		due_ns -= SPIN_NS;
	}
	__atomic_store_n(&hca->card_idle, 1, __ATOMIC_SEQ_CST);
	if (!has_work() && !stop)
		hca_futex_wait(&hca->bell, seen, due_ns);
	__atomic_store_n(&hca->card_idle, 0, __ATOMIC_RELAXED);
}

static void run(void)
{
	struct due d = { HCA_NEVER, 0, 0, HCA_NEVER };

	while (!stop) {
		uint64_t now = hca_now_ns();

		if (hca->is_inline)
			hca_lock();
		serve_all();
		d.event_ns = hca_engine_step(now);
		run_due(&d, now);
		now = hca_now_ns();
		if (next_due(&d) > now + EARLY_COPY_NS && hca_early_copy())
			d.event_ns = 0;
		if (hca->is_inline)
			hca_unlock();
		sleep_until(next_due(&d), now);
	}
}

/* The card goes away under running applications: they are told, and none waits for ever. */
static void tell_everybody(void)
{
	for (uint32_t i = 1; i < HCA_MAX_CHANS; i++) {
		const struct ib_uverbs_async_event_desc e = {
			.event_type = IBV_EVENT_DEVICE_FATAL,
		};

		if (hca->chan[i].used && hca->chan[i].is_async)
			hca_chan_post(i, &e, sizeof(e));
	}
	for (uint32_t i = 0; i < hca->qp_high; i++)
		if (hca->qp[i].used && hca->qp[i].state != IBV_QPS_RESET)
			hca_qp_set_state(&hca->qp[i], IBV_QPS_ERR);
	hca_wake_pollers();
}

int hca_card_main(const char *world_dir, const struct hca_config *cfg, int ready_fd)
{
	int rc = init_segment(world_dir, cfg);

	if (rc)
		return rc;
	hca_disturb_begin(world_dir, cfg);
	catch_signals();
	if (vc_is_virtual())
		rc = hca_keeper_begin(&stop);
	else
		raise_priority();
	if (rc)
		return rc;
	__atomic_store_n(&hca->up, 1, __ATOMIC_RELEASE);
	if (write(ready_fd, "", 1) != 1)
		return -errno;
	close(ready_fd);
	run();
	if (hca->is_inline)
		hca_lock();
	tell_everybody();
	hca_disturb_end();
	if (hca->is_inline)
		hca_unlock();
	__atomic_store_n(&hca->up, 0, __ATOMIC_RELEASE);
	return 0;
}
