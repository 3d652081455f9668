// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/* Counters of a running world, for those who only look. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "hca.h"

struct hca_stat { const struct hca_seg *seg; };

int hca_stat_open(const char *world_dir, struct hca_stat **out)
{
	struct hca_stat *st = calloc(1, sizeof(*st));
	struct hca_seg *seg;
	int rc;

	if (!st)
		return -ENOMEM;
	rc = hca_seg_map(world_dir, false, &seg);
	if (rc) {
		free(st);
		return rc;
	}
	st->seg = seg;
	*out = st;
	return 0;
}

void hca_stat_close(struct hca_stat *st)
{
	munmap((void *)st->seg, sizeof(*st->seg));
	free(st);
}

void hca_stat_world(const struct hca_stat *st, struct hca_stat_world *out)
{
	const struct hca_seg *s = st->seg;

	*out = (struct hca_stat_world){
		.hosts = s->hosts, .slowdown = s->slowdown, .is_eth = s->is_eth,
		.card_pid = s->card_pid,
		.elapsed_ns = (hca_now_ns() - s->t0_ns) / s->slowdown,
	};
	if (s->vc.is_virtual) {
		out->is_virtual = 1;
		out->elapsed_ns = s->vc.now_ns - s->t0_ns;
		out->is_held = s->vc.hold_ns != VC_NEVER;
		out->is_parked = s->vc.holder < 0;
	}
	memcpy(out->model, s->model, sizeof(out->model));
	snprintf(out->driver, sizeof(out->driver), "%s", s->is_inline ? "inline" : "card");
}

int hca_stat_port(const struct hca_stat *st, uint32_t host, struct hca_stat_port *out)
{
	const struct hca_host *h;

	if (host >= st->seg->hosts)
		return -ENOENT;
	h = &st->seg->host[host];
	*out = (struct hca_stat_port){
		.tx_bytes = h->tx_bytes, .tx_msgs = h->tx_msgs,
		.rx_bytes = h->rx_bytes, .rx_msgs = h->rx_msgs,
	};
	memcpy(out->host, h->name, sizeof(out->host));
	return 0;
}

static const char *waits_for(const struct vc_thread *t)
{
	static const char *const name[] = {
		[VC_BATON] = "runs", [VC_TIME] = "time", [VC_POLL] = "card", [VC_CTL] = "card",
		[VC_SPIN] = "card", [VC_FDS] = "file", [VC_LOCK] = "lock", [VC_COND] = "lock",
		[VC_JOIN] = "lock", [VC_CARD] = "card",
	};

	if (t->state == VC_OUTSIDE)
		return "outside";
	return t->state == VC_WAITS ? name[t->why] : "runs";
}

int hca_stat_program_next(const struct hca_stat *st, uint32_t *pos, struct hca_stat_program *out)
{
	const struct vclock *vc = &st->seg->vc;

	while (*pos < vc->high) {
		const struct vc_thread *t = &vc->thread[(*pos)++];

		if (t->state == VC_FREE || t->rank || t->pid != t->tid)
			continue;
		*out = (struct hca_stat_program){ .pid = t->pid, .waits = waits_for(t) };
		return 1;
	}
	return 0;
}

int hca_stat_qp_next(const struct hca_stat *st, uint32_t *pos, struct hca_stat_qp *out)
{
	const struct hca_seg *s = st->seg;

	while (*pos < HCA_MAX_QPS) {
		const struct hca_qp *q = &s->qp[(*pos)++];

		if (!q->used)
			continue;
		*out = (struct hca_stat_qp){
			.pid = s->proc[q->owner.proc].pid, .qpn = *pos - 1, .type = q->type,
			.state = q->state, .tx_bytes = q->tx_bytes, .tx_msgs = q->tx_msgs,
			.rx_bytes = q->rx_bytes, .rx_msgs = q->rx_msgs,
		};
		memcpy(out->host, s->host[q->host % HCA_MAX_HOSTS].name, sizeof(out->host));
		return 1;
	}
	return 0;
}
