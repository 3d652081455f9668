// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Faults on demand in the running card: asks the rules at the seams of the engine and does
 * what they say. What happens at a time is the card process's, for only it is sure to wake.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "sysfs.h"
#include "wqe.h"

#define MAIL_NS (5000 * HCA_NS_PER_MS)	/* a card that is alive answers sooner */
#define STOP_STEP_NS 100000
#define STOP_STEPS 500			/* how often a process is asked whether it has stopped */
#define PORT 1

enum mail { MAIL_NONE, MAIL_POSTED };

static uint64_t told_ns;	/* card: when it last meant to look again */
static const char *world;	/* card: where its files lie, */
static const struct hca_config *config;	/* and what they follow */

/* ---- seams ---- */

static bool is_release(uint32_t op)
{
	switch (op) {
	case HCA_CTL_CLOSE_CTX: case HCA_CTL_DEALLOC_PD: case HCA_CTL_DEREG_MR:
	case HCA_CTL_DESTROY_CHAN: case HCA_CTL_DESTROY_CQ: case HCA_CTL_DESTROY_SRQ:
	case HCA_CTL_DESTROY_QP: return true;
	default: return false;
	}
}

/* 0: the command may be served; or its negative errno. */
int hca_disturb_command(uint32_t proc, uint32_t op)
{
	uint32_t host = hca->proc[proc].host;
	const struct hca_fault_case what = { .on = HCA_FAULT_COMMAND, .host = host, .op = op };
	const struct hca_fault_rule *r;

	if (hca->host[host].is_dead && !is_release(op))
		return -EIO;
	if (!hca->faults.rules)
		return 0;
	r = hca_fault_match(&hca->faults, &what);
	return r ? -(int)r->value : 0;
}

/* What happens to a message instead of its execution. */
uint8_t hca_disturb_message(struct hca_qp *q, const struct hca_qp *r, uint32_t op,
			    uint64_t *value)
{
	const struct hca_fault_case what = {
		.on = HCA_FAULT_MESSAGE, .host = q->host, .op = op, .qp = HCA_INDEX(qp, q),
	};
	const struct hca_fault_rule *rule;

	if (hca->host[q->host].port_down || hca->host[r->host].port_down)
		return HCA_FAULT_DROP;
	if (!hca->faults.rules)
		return HCA_FAULT_NONE;
	if (q->is_delayed) {	/* had its fate already */
		q->is_delayed = 0;
		return HCA_FAULT_NONE;
	}
	rule = hca_fault_match(&hca->faults, &what);
	if (!rule)
		return HCA_FAULT_NONE;
	q->is_delayed = rule->act == HCA_FAULT_DELAY;
	*value = rule->value;
	return rule->act;
}

static const struct hca_fault_rule *about_cq(const struct hca_cq *cq, uint8_t on, uint32_t qpn)
{
	const struct hca_fault_case what = {
		.on = on, .host = hca->proc[cq->owner.proc].host, .qp = qpn,
	};

	return hca->faults.rules ? hca_fault_match(&hca->faults, &what) : NULL;
}

/* Is there to be no room for this entry? */
bool hca_disturb_completion(const struct hca_cq *cq, uint32_t qpn)
{
	return about_cq(cq, HCA_FAULT_COMPLETION, qpn) != NULL;
}

static void look_again(uint64_t at_ns)
{
	if (at_ns >= hca->disturb_ns)
		return;
	__atomic_store_n(&hca->disturb_ns, at_ns, __ATOMIC_SEQ_CST);
	if (!hca_is_card)
		hca_card_poke();
}

/* Is the event not to be sent now? */
bool hca_disturb_event(struct hca_cq *cq)
{
	const struct hca_fault_rule *r = about_cq(cq, HCA_FAULT_EVENT, 0);

	if (!r)
		return false;
	if (r->act == HCA_FAULT_DROP)
		return true;
	if (!cq->late_events++)
		cq->late_ns = hca_now_ns() + r->value;
	look_again(cq->late_ns);
	return true;
}

/* ---- what happens at a time ---- */

static void tell_host(uint32_t host, uint32_t type, uint64_t element)
{
	const struct ib_uverbs_async_event_desc e = { .element = element, .event_type = type };

	for (uint32_t i = 1; i < HCA_MAX_CHANS; i++) {
		const struct hca_chan *ch = &hca->chan[i];

		if (ch->used && ch->is_async && hca->proc[ch->owner.proc].host == host)
			hca_chan_post(i, &e, sizeof(e));
	}
}

static void set_port(uint32_t host, bool is_down)
{
	struct hca_host *h = &hca->host[host];

	if (h->port_down == is_down)
		return;
	h->port_down = is_down;
	if (hca_sysfs_set_port(config, world, host, is_down))
		fprintf(stderr, "softhca: host %s: the port's state cannot be written\n", h->name);
	tell_host(host, is_down ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE, PORT);
}

static void die(uint32_t host)
{
	hca->host[host].is_dead = 1;
	for (uint32_t i = 0; i < hca->qp_high; i++)
		if (hca->qp[i].used && hca->qp[i].host == host &&
		    hca->qp[i].state != IBV_QPS_RESET)
			hca_qp_set_state(&hca->qp[i], IBV_QPS_ERR);
	tell_host(host, IBV_EVENT_DEVICE_FATAL, 0);
	hca_wake_pollers();
}

static void signal_host(uint32_t host, int sig, void (*then)(pid_t))
{
	for (uint32_t i = 0; i < HCA_MAX_PROCS; i++) {
		const struct hca_proc *p = &hca->proc[i];

		if (!__atomic_load_n(&p->ready, __ATOMIC_ACQUIRE) || p->host != host || p->pid <= 0)
			continue;
		if (!kill(p->pid, sig) && then)
			then(p->pid);
	}
}

static bool still_runs(pid_t pid)
{
	char path[32], text[256] = "", *end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (!fgets(text, sizeof(text), f))
		text[0] = 0;
	fclose(f);
	end = strrchr(text, ')');
	return end && strlen(end) > 2 && !strchr("tTXZ", end[2]);
}

/* Without the card's lock, which this process holds meanwhile, nobody stops holding it. */
static void wait_stopped(pid_t pid)
{
	const struct timespec t = { .tv_nsec = STOP_STEP_NS };

	for (int i = 0; i < STOP_STEPS && still_runs(pid); i++)
		nanosleep(&t, NULL);
}

static void freeze(uint32_t host, uint64_t until_ns)
{
	if (until_ns > hca->host[host].thaw_ns)
		hca->host[host].thaw_ns = until_ns;
	signal_host(host, SIGSTOP, wait_stopped);
}

static void thaw(uint32_t host)
{
	if (!hca->host[host].thaw_ns)
		return;
	hca->host[host].thaw_ns = 0;
	signal_host(host, SIGCONT, NULL);
}

static void act_on(const struct hca_fault_rule *r, uint32_t host, uint64_t now_ns)
{
	switch (r->act) {
	case HCA_FAULT_PORT_DOWN: set_port(host, true); break;
	case HCA_FAULT_PORT_UP: set_port(host, false); break;
	case HCA_FAULT_FATAL: die(host); break;
	case HCA_FAULT_FREEZE: freeze(host, now_ns + r->value); break;
	case HCA_FAULT_KILL: signal_host(host, SIGKILL, NULL); break;
	}
}

static void act(const struct hca_fault_rule *r, uint64_t now_ns)
{
	for (uint32_t host = 0; host < hca->hosts; host++)
		if (r->host < 0 || (uint32_t)r->host == host)
			act_on(r, host, now_ns);
}

static uint64_t thaw_due(uint64_t now_ns)
{
	uint64_t next = HCA_NEVER;

	for (uint32_t host = 0; host < hca->hosts; host++) {
		uint64_t at = hca->host[host].thaw_ns;

		if (at && at <= now_ns)
			thaw(host);
		else if (at && at < next)
			next = at;
	}
	return next;
}

static uint64_t send_late(uint64_t now_ns)
{
	uint64_t next = HCA_NEVER;

	for (uint32_t i = 0; i < HCA_MAX_CQS; i++) {
		struct hca_cq *cq = &hca->cq[i];

		if (!cq->used || !cq->late_events)
			continue;
		for (; cq->late_ns <= now_ns && cq->late_events; cq->late_events--)
			hca_cq_tell(cq);
		if (cq->late_events && cq->late_ns < next)
			next = cq->late_ns;
	}
	return next;
}

/* ---- rules come and go ---- */

/* New rules begin with all well. */
static void heal(void)
{
	for (uint32_t host = 0; host < hca->hosts; host++) {
		set_port(host, false);
		hca->host[host].is_dead = 0;
		thaw(host);
	}
	for (uint32_t i = 0; i < hca->qp_high; i++)
		hca->qp[i].is_delayed = 0;
}

static void take_mail(uint64_t now_ns)
{
	if (__atomic_load_n(&hca->mail_state, __ATOMIC_ACQUIRE) != MAIL_POSTED)
		return;
	heal();
	hca->faults = hca->mail;
	hca->faults.begin_ns = now_ns;
	hca->disturb_ns = 0;
	__atomic_store_n(&hca->mail_state, MAIL_NONE, __ATOMIC_RELEASE);
	hca_futex_wake(&hca->mail_state);
}

uint64_t hca_disturb_step(uint64_t now_ns)
{
	const struct hca_fault_rule *r;
	uint64_t next, at;

	take_mail(now_ns);
	if (now_ns >= hca->disturb_ns) {
		while ((r = hca_fault_due(&hca->faults, now_ns, &next)))
			act(r, now_ns);
		at = thaw_due(now_ns);
		next = at < next ? at : next;
		at = send_late(now_ns);
		hca->disturb_ns = at < next ? at : next;
	}
	told_ns = hca->disturb_ns;
	return told_ns;
}

/* Has something changed since the card last looked? */
bool hca_disturb_has_news(void)
{
	return __atomic_load_n(&hca->mail_state, __ATOMIC_SEQ_CST) == MAIL_POSTED ||
	       __atomic_load_n(&hca->disturb_ns, __ATOMIC_SEQ_CST) != told_ns;
}

void hca_disturb_begin(const char *world_dir, const struct hca_config *cfg)
{
	world = world_dir;
	config = cfg;
}

void hca_disturb_end(void)
{
	for (uint32_t host = 0; host < hca->hosts; host++)
		thaw(host);
}

/* ---- the launcher's side ---- */

/* Launchers take turns. */
static int lock_mail(const char *world_dir)
{
	char path[PATH_MAX];
	int fd;

	if (snprintf(path, sizeof(path), "%s/config", world_dir) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (flock(fd, LOCK_EX) && errno == EINTR)
		;
	return fd;
}

static int wait_mail(void)
{
	uint64_t end = hca_now_ns() + MAIL_NS;

	while (__atomic_load_n(&hca->mail_state, __ATOMIC_ACQUIRE) == MAIL_POSTED) {
		if (hca_now_ns() >= end)
			return -ETIMEDOUT;
		hca_futex_wait(&hca->mail_state, MAIL_POSTED, end);
	}
	return 0;
}

int hca_card_set_faults(const char *world_dir, const struct hca_faults *f)
{
	int rc, fd = lock_mail(world_dir);

	if (fd < 0)
		return fd;
	rc = hca_seg_map(world_dir, true, &hca);
	if (!rc)
		rc = wait_mail();	/* of one who was killed before it was read */
	if (!rc) {
		hca->mail = *f;
		__atomic_store_n(&hca->mail_state, MAIL_POSTED, __ATOMIC_SEQ_CST);
		hca_card_poke();
		rc = wait_mail();
	}
	close(fd);
	return rc;
}

int hca_card_get_faults(const char *world_dir, struct hca_faults *out)
{
	struct hca_seg *seg;
	int rc = hca_seg_map(world_dir, false, &seg);

	if (!rc)
		*out = seg->faults;
	return rc;
}
