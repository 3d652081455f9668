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
		.elapsed_ns = ((s->vc.is_virtual ? s->vc.now_ns : hca_now_ns()) - s->t0_ns) / s->slowdown,
	};
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
