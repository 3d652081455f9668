// SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB
/*
 * Parameters of the contention model: the calibrated presets, and their overrides by name.
 *
 * Calibrated on the published anomalies of each fabric (Justitia, NSDI'22, figures 3, 4, 14, 28,
 * 29).  Ours, chosen to meet them in this model: ib56's F = 5,000 bytes (latency beside one
 * bandwidth application, 2.4 / 2.9 us); post_ns = 92 (a throughput application alone, 10.6 to
 * 10.7 Mops).  staging_packets must cover a payload fetch at that rate (5 packets) and matters
 * little above.  The paces of the lossless switch are chosen, not measured (only roce40's are
 * from a data sheet).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nic.h"

static const struct nic_params preset[] = {
	{
		.name = "ib56", .link_gbps = 56, .rate_bytes_per_us = 6300,
		.mtu_bytes = 4096, .overhead_bytes = 30,
		.units = 2, .turn_bytes = 70000, .turn_ops = 2,
		.staging_bytes = 12288, .staging_packets = 8, .fifo_bytes = 5000,
		.small_bytes = 256, .small_per_grant = 2,
		.wqe_ns = 45, .packet_ns = 20, .switch_ns = 10, .bubble_ns = 118,
		.dma_ns = 450, .dma_jitter_ns = 40, .fetch_ns = 350,
		.post_ns = 92, .doorbell_ns = 130, .hop_ns = 130,
		.rx_packet_ns = 25, .rx_ack_ns = 235, .cqe_ns = 200, .cqe_jitter_ns = 100,
		.poll_ns = 40, .wake_short_us = 8, .wake_long_us = 60, .wake_deep_us = 211,
		.max_bytes_per_us = 6000, .max_ops_per_ms = 10800,
		.switch_is_fifo = 0, .xoff_bytes = 65536, .xon_bytes = 49152,
	}, {
		.name = "roce40", .link_gbps = 40, .rate_bytes_per_us = 4620,
		.mtu_bytes = 4096, .overhead_bytes = 62,
		.units = 2, .turn_bytes = 65536, .turn_ops = 2,
		.staging_bytes = 12288, .staging_packets = 8, .fifo_bytes = 17500,
		.small_bytes = 256, .small_per_grant = 3,
		.wqe_ns = 45, .packet_ns = 20, .switch_ns = 10, .bubble_ns = 60,
		.dma_ns = 450, .dma_jitter_ns = 40, .fetch_ns = 350,
		.post_ns = 92, .doorbell_ns = 150, .hop_ns = 180,
		.rx_packet_ns = 25, .rx_ack_ns = 200, .cqe_ns = 200, .cqe_jitter_ns = 100,
		.poll_ns = 40, .wake_short_us = 7, .wake_long_us = 45, .wake_deep_us = 300,
		.max_bytes_per_us = 4400, .max_ops_per_ms = 10800,
		.switch_is_fifo = 1, .xoff_bytes = 131072, .xon_bytes = 98304,
	}, {
		.name = "ib100", .link_gbps = 100, .rate_bytes_per_us = 12000,
		.mtu_bytes = 4096, .overhead_bytes = 30,
		.units = 2, .turn_bytes = 80000, .turn_ops = 2,
		.staging_bytes = 20480, .staging_packets = 8, .fifo_bytes = 8000,
		.small_bytes = 256, .small_per_grant = 2,
		.wqe_ns = 30, .packet_ns = 12, .switch_ns = 10, .bubble_ns = 30,
		.dma_ns = 450, .dma_jitter_ns = 40, .fetch_ns = 350,
		.post_ns = 90, .doorbell_ns = 130, .hop_ns = 110,
		.rx_packet_ns = 14, .rx_ack_ns = 150, .cqe_ns = 170, .cqe_jitter_ns = 100,
		.poll_ns = 40, .wake_short_us = 5, .wake_long_us = 40, .wake_deep_us = 150,
		.max_bytes_per_us = 11500, .max_ops_per_ms = 16000,
		.switch_is_fifo = 0, .xoff_bytes = 65536, .xon_bytes = 49152,
	},
};

#define KEY(member, lo, hi) { #member, offsetof(struct nic_params, member), lo, hi }

static const struct {
	const char *name;
	size_t offset;
	uint32_t min, max;
} key[] = {
	KEY(link_gbps, 1, 10000),
	KEY(rate_bytes_per_us, 10, 1000000),
	KEY(mtu_bytes, 256, 4096),
	KEY(overhead_bytes, 0, 256),
	KEY(units, 1, NIC_UNITS),
	KEY(turn_bytes, 1, 1u << 30),
	KEY(turn_ops, 1, 65536),
	KEY(staging_bytes, 4096, NIC_STAGE * 4096),
	KEY(staging_packets, 1, NIC_STAGE),
	KEY(fifo_bytes, 0, 1u << 20),
	KEY(small_bytes, 1, 4096),
	KEY(small_per_grant, 1, NIC_STAGE),
	KEY(wqe_ns, 0, 100000),
	KEY(packet_ns, 0, 100000),
	KEY(switch_ns, 0, 100000),
	KEY(bubble_ns, 0, 100000),
	KEY(dma_ns, 0, 1000000),
	KEY(dma_jitter_ns, 0, 1000000),
	KEY(fetch_ns, 0, 1000000),
	KEY(post_ns, 0, 1000000),
	KEY(doorbell_ns, 0, 1000000),
	KEY(hop_ns, 0, 10000),
	KEY(rx_packet_ns, 0, 1000000),
	KEY(rx_ack_ns, 0, 1000000),
	KEY(cqe_ns, 0, 1000000),
	KEY(cqe_jitter_ns, 0, 1000000),
	KEY(poll_ns, 0, 1000000),
	KEY(wake_short_us, 0, 1000000),
	KEY(wake_long_us, 0, 1000000),
	KEY(wake_deep_us, 0, 1000000),
	KEY(max_bytes_per_us, 1, 1000000),
	KEY(max_ops_per_ms, 1, 10000000),
	KEY(switch_is_fifo, 0, 1),
	KEY(xoff_bytes, 8192, 1u << 24),
	KEY(xon_bytes, 4096, 1u << 24),
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static uint32_t *member(struct nic_params *p, size_t i)
{
	return (uint32_t *)((char *)p + key[i].offset);
}

int nic_params_preset(struct nic_params *p, const char *name)
{
	for (size_t i = 0; i < COUNT(preset); i++) {
		if (!strcmp(preset[i].name, name)) {
			*p = preset[i];
			return 0;
		}
	}
	return -ENOENT;
}

static int parse_u32(const char *text, uint64_t *out)
{
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	*out = strtoull(text, &end, 10);
	if (*end)
		return -EINVAL;
	return errno ? -ERANGE : 0;
}

int nic_params_set(struct nic_params *p, const char *name, const char *value,
		   uint32_t *min, uint32_t *max)
{
	uint64_t v;
	int rc;

	for (size_t i = 0; i < COUNT(key); i++) {
		if (strcmp(key[i].name, name))
			continue;
		if (min)
			*min = key[i].min;
		if (max)
			*max = key[i].max;
		rc = parse_u32(value, &v);
		if (rc)
			return rc;
		if (v < key[i].min || v > key[i].max)
			return -ERANGE;
		*member(p, i) = (uint32_t)v;
		return 0;
	}
	return -ENOENT;
}

const char *nic_params_get(const struct nic_params *p, size_t i, uint32_t *value)
{
	if (i >= COUNT(key))
		return NULL;
	*value = *(const uint32_t *)((const char *)p + key[i].offset);
	return key[i].name;
}

int nic_params_check(const struct nic_params *p, const char **reason)
{
	uint64_t wire = (uint64_t)p->hop_ns * p->rate_bytes_per_us / 1000;

	*reason = NULL;
	if (p->staging_bytes < p->mtu_bytes)
		*reason = "staging_bytes must hold a packet of mtu_bytes";
	else if (p->cqe_jitter_ns > p->cqe_ns)
		*reason = "cqe_jitter_ns must not exceed cqe_ns";
	else if (p->xon_bytes >= p->xoff_bytes)
		*reason = "xon_bytes must be below xoff_bytes";
	else if (p->xon_bytes < p->fifo_bytes + 4 * p->mtu_bytes + wire)
		*reason = "xon_bytes must exceed fifo_bytes, what a hop holds and four packets";
	return *reason ? -EINVAL : 0;
}
