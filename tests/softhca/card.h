/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What the launcher may ask of the emulated card: run it, and look at its counters.
 * It also fixes how host number i is addressed, so that sysfs and the card agree.
 */
#ifndef HCA_CARD_H
#define HCA_CARD_H

#include <stdint.h>
#include <string.h>
#include <sys/types.h>

struct hca_config;
struct hca_faults;

#define HCA_MAX_HOSTS 64
#define HCA_NAME_LEN 32
#define HCA_GID_TBL_LEN 8

/* LID of host @i on an InfiniBand fabric; 0 is no LID. */
static inline uint16_t hca_host_lid(unsigned int i)
{
	return (uint16_t)(i + 1);
}

/* Node GUID, port GUID and system image GUID of host @i, host byte order. */
static inline uint64_t hca_host_guid(unsigned int i)
{
	return 0x020000fffe000001ull + i;
}

static inline void hca_host_mac(unsigned int i, uint8_t mac[6])
{
	const uint8_t m[6] = { 0x02, 0, 0, 0, (uint8_t)((i + 1) >> 8), (uint8_t)(i + 1) };

	memcpy(mac, m, 6);
}

/*
 * GID @index of host @i. InfiniBand: index 0 = fe80::GUID. Ethernet: 0 and 1 are the
 * link-local address (RoCE v1, v2), 2 and 3 the IPv4-mapped 10.0.x.y (v1, v2).
 * Returns 0, or -1 (gid zeroed) for an empty table entry.
 */
static inline int hca_host_gid(unsigned int i, int is_eth, unsigned int index, uint8_t gid[16])
{
	uint64_t guid = hca_host_guid(i);

	memset(gid, 0, 16);
	if (index >= (is_eth ? 4u : 1u))
		return -1;
	if (index >= 2) {
		const uint8_t v4[6] = { 0xff, 0xff, 10, 0, (uint8_t)((i + 1) >> 8),
					(uint8_t)(i + 1) };

		memcpy(gid + 10, v4, 6);
		return 0;
	}
	gid[0] = 0xfe;
	gid[1] = 0x80;
	for (int b = 0; b < 8; b++)
		gid[8 + b] = (uint8_t)(guid >> (56 - 8 * b));
	return 0;
}

/*
 * The card process: makes <world_dir>/fabric, writes one byte to @ready_fd once
 * applications may attach, serves until SIGTERM or SIGINT. 0 or negative errno.
 */
int hca_card_main(const char *world_dir, const struct hca_config *cfg, int ready_fd);

/*
 * The rules of faults of a running world: new ones, in force on return, and those in force
 * with their counters. 0 or negative errno.
 */
int hca_card_set_faults(const char *world_dir, const struct hca_faults *f);
int hca_card_get_faults(const char *world_dir, struct hca_faults *out);

/* Read-only view of a running world's counters. All times and rates: model units. */
struct hca_stat;

struct hca_stat_world {
	char model[HCA_NAME_LEN];	/* "off" without contention model */
	char driver[HCA_NAME_LEN];	/* "card" or "inline" */
	uint32_t hosts;
	uint32_t slowdown;		/* wall ns per model ns */
	uint32_t is_eth;
	pid_t card_pid;
	uint64_t elapsed_ns;		/* model time since the world came up */
	uint32_t is_virtual;		/* the clock, */
	uint32_t is_held;		/* which stands, */
	uint32_t is_parked;		/* and nobody can run before it moves */
};

/* A program of a world with a virtual clock. */
struct hca_stat_program {
	pid_t pid;
	const char *waits;	/* its first thread: "runs", "time", "card", "file", "lock", "outside" */
};

struct hca_stat_port {
	char host[HCA_NAME_LEN];
	uint64_t tx_bytes, tx_msgs;	/* payload of delivered messages, either direction of data */
	uint64_t rx_bytes, rx_msgs;
};

struct hca_stat_qp {
	char host[HCA_NAME_LEN];
	pid_t pid;
	uint32_t qpn;
	uint32_t type;			/* enum ibv_qp_type */
	uint32_t state;			/* enum ibv_qp_state */
	uint64_t tx_bytes, tx_msgs;	/* as requester */
	uint64_t rx_bytes, rx_msgs;	/* as responder */
};

int hca_stat_open(const char *world_dir, struct hca_stat **out);	/* 0 / negative errno */
void hca_stat_close(struct hca_stat *st);
void hca_stat_world(const struct hca_stat *st, struct hca_stat_world *out);
/* 0, or -ENOENT when there is no such host. */
int hca_stat_port(const struct hca_stat *st, uint32_t host, struct hca_stat_port *out);
/* Walks: *pos = 0 to begin; 1 = *out filled, 0 = no more. */
int hca_stat_program_next(const struct hca_stat *st, uint32_t *pos, struct hca_stat_program *out);
int hca_stat_qp_next(const struct hca_stat *st, uint32_t *pos, struct hca_stat_qp *out);

#endif
