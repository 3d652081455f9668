/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A world of emulated hosts: its configuration, and where its files lie.
 *
 * A world is a directory: `config` (text, "key = value" lines, written by the launcher and read
 * by everybody), `hosts/<name>/sysfs/`, `fabric` (the shared segment) and `card.pid`.
 * How host number i is addressed (LID, GUID, GIDs) is in card.h.
 */
#ifndef SOFTHCA_CONFIG_H
#define SOFTHCA_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "card.h"
#include "device.h"
#include "nic.h"

enum {
	HCA_PATH_LEN = 4096,
	HCA_ERROR_LEN = 512,	/* room for an error message */
	HCA_SLOWDOWN_MAX = 1000000,
};

struct hca_config {
	uint32_t hosts;
	char host[HCA_MAX_HOSTS][HCA_NAME_LEN];
	int device;		/* enum hca_device_kind, the same on every host */
	int is_eth;		/* link layer: 1 Ethernet (RoCE), 0 InfiniBand */
	int is_inline;		/* driver: 1 the application's own thread, 0 the card process */
	int has_model;		/* 0: no contention at all; nic is filled with ib56 all the same */
	int is_virtual;		/* the clock: 1 virtual, 0 the machine's */
	int is_held;		/* a virtual clock stands at first */
	uint32_t slowdown;	/* wall ns per model ns */
	uint64_t seed;
	struct nic_params nic;	/* preset plus overrides; nic.name is "off" without a model */
};

/* Hosts a and b, mlx5, InfiniBand, ib56, slowdown 50, seed 1, card driver. */
void hca_config_default(struct hca_config *c);
/*
 * One setting: hosts, device (mlx5, mlx4), link (ib, eth), model (ib56, roce40, ib100, off),
 * clock (real, virtual), hold (no, yes), driver (card, inline), slowdown, seed or a nic_params
 * key.  A model resets the parameters to
 * its preset, and "off" selects the inline driver, so it comes before them.  0 or -errno, the
 * message in err.
 */
int hca_config_set(struct hca_config *c, const char *key, const char *value,
		   char *err, size_t err_size);
/* What no single setting can check; 0 or -EINVAL, the message in err. */
int hca_config_check(const struct hca_config *c, char *err, size_t err_size);
/* The world's config file.  0 or -errno; load: -ENOENT when there is no such world. */
int hca_config_load(struct hca_config *c, const char *world, char *err, size_t err_size);
int hca_config_store(const struct hca_config *c, const char *world, char *err, size_t err_size);

/* The world's directory: opt when not NULL, else $SOFTHCA_WORLD, else the default. */
int hca_world_dir(const char *opt, char *out, size_t out_size);
/* out = world/name; 0 or -ENAMETOOLONG */
int hca_world_path(const char *world, const char *name, char *out, size_t out_size);
/* Index of a host, or -ENOENT. */
int hca_host_index(const struct hca_config *c, const char *name);
/* "model ib56, slowdown 50": what every tool prints beside a figure. */
void hca_config_banner(const struct hca_config *c, char *out, size_t out_size);

#endif
